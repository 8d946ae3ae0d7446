//! What a killed process must have left in its file.
//!
//! The system lives on, and has every byte that it was given. So:
//! 1. The file has what every thread had done before a sync that was acknowledged, or what it did there
//!    later.
//! 2. It has nothing that no thread did: the operations that a thread may have done end before the next
//!    sync of its own, which it would have reported.
//! 3. A page of the system has what each thread did there up to one of its operations, and nothing after
//!    it: a page is given to the system as it was at one moment, and the system writes it as a whole.
//! 4. The size is one that the file had, or a multiple of the page's on the way to one. If the file was transferred directly, and its tail written since the last
//!    acknowledged sync, it may also be the end of the block in which it ends.

use std::ops::Range;

use pagewell_crash::{BLOCK, Block, Model, PAGE, block};
use pagewell_testkit::content;

use super::life::Life;
use super::ops::{self, Op, Ops, TAIL_START, Tail, owner, version};

/// Blocks of a page of the system.
const A_PAGE: u64 = (PAGE / BLOCK) as u64;

/// What a process has reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Acknowledged {
    /// By thread, how many of its operations are there come what may.
    counts: Vec<u64>,
    /// By thread, the last sync that it reported.
    last_syncs: Vec<u64>,
    pub(super) nr_syncs: u64,
}

impl Acknowledged {
    pub(super) fn nothing(life: &Life) -> Acknowledged {
        Acknowledged {
            counts: vec![0; life.nr_threads as usize],
            last_syncs: vec![0; life.nr_threads as usize],
            nr_syncs: 0,
        }
    }

    /// Takes a report of a sync, as the process writes them; none for anything else.
    pub(super) fn take(&mut self, line: &str) -> Option<()> {
        let numbers = line.strip_prefix("synced ")?.split(' ').map(str::parse);
        let numbers: Vec<u64> = numbers.collect::<Result<_, _>>().ok()?;
        let [thread, number, counts @ ..] = numbers.as_slice() else {
            return None;
        };
        if counts.len() != self.counts.len() {
            return None;
        }
        *self.last_syncs.get_mut(*thread as usize)? = *number;
        for (known, now) in self.counts.iter_mut().zip(counts) {
            *known = *now.max(known);
        }
        self.nr_syncs += 1;
        Some(())
    }
}

/// Checks the bytes that a process has left, which found those of `before`, and was transferred in blocks of `unit` bytes.
///
/// # Errors
///
/// A sentence that says what does not hold.
pub(super) fn check(
    life: &Life,
    unit: usize,
    (before, after): (&[u8], &[u8]),
    acknowledged: &Acknowledged,
) -> Result<(), String> {
    let tail_start = TAIL_START as usize;
    let Some((blocks, tail)) = after.split_at_checked(tail_start) else {
        return Err(format!("the file has {} bytes only", after.len()));
    };
    let tail_before = &before[tail_start..];
    for thread in 0..life.nr_threads {
        let done = Done::new(life, thread, tail_before.len() as u64, acknowledged);
        done.check_blocks(&before[..tail_start], blocks)?;
        if thread == 0 {
            done.check_tail(unit, tail_before, tail)?;
        }
    }
    Ok(())
}

/// What one thread has done.
struct Done<'l> {
    life: &'l Life,
    thread: u64,
    /// The operations that it may have done, in order.
    ops: Vec<(u64, Op)>,
    /// How many of them it has done before an acknowledged sync.
    nr_durable: u64,
}

/// A write to blocks of one page.
#[derive(Clone)]
struct Written {
    number: u64,
    blocks: Range<u64>,
}

impl<'l> Done<'l> {
    fn new(life: &'l Life, thread: u64, tail: u64, acknowledged: &Acknowledged) -> Done<'l> {
        let last_sync = acknowledged.last_syncs[thread as usize];
        let mut all = Ops::new(life, thread, tail);
        let may_be_done = |(number, op): &(u64, Op)| {
            *number <= last_sync || !matches!(op, Op::SyncData | Op::SyncAll)
        };
        Done {
            life,
            thread,
            ops: std::iter::repeat_with(|| all.next())
                .take_while(may_be_done)
                .collect(),
            nr_durable: acknowledged.counts[thread as usize],
        }
    }

    fn version(&self, number: u64) -> u64 {
        version(self.life.number, self.thread, number)
    }

    /// The writes to blocks, by page.
    fn writes(&self, nr_pages: u64) -> Vec<Vec<Written>> {
        let mut by_page = vec![Vec::new(); nr_pages as usize];
        for (number, op) in &self.ops {
            let blocks = match op {
                Op::Write(blocks) => blocks.clone(),
                Op::PinMut(block) => *block..*block + 1,
                _ => continue,
            };
            for page in blocks.start / A_PAGE..blocks.end.div_ceil(A_PAGE) {
                let of_page = page * A_PAGE..(page + 1) * A_PAGE;
                by_page[page as usize].push(Written {
                    number: *number,
                    blocks: blocks.start.max(of_page.start)..blocks.end.min(of_page.end),
                });
            }
        }
        by_page
    }

    fn check_blocks(&self, before: &[u8], after: &[u8]) -> Result<(), String> {
        let nr_pages = (after.len() / PAGE) as u64;
        for (page, writes) in (0..).zip(self.writes(nr_pages)) {
            self.check_page(page, &writes, before, after)?;
        }
        Ok(())
    }

    /// Rules 1 to 3 for the blocks of this thread in one page.
    fn check_page(
        &self,
        page: u64,
        writes: &[Written],
        before: &[u8],
        after: &[u8],
    ) -> Result<(), String> {
        let nr_durable = writes
            .iter()
            .take_while(|write| write.number <= self.nr_durable)
            .count();
        let is_as_after = |nr_writes: usize| {
            self.own_blocks(page)
                .all(|block| self.has_block(block, &writes[..nr_writes], before, after))
        };
        if (nr_durable..=writes.len()).any(is_as_after) {
            return Ok(());
        }
        Err(self.describe(page, writes, nr_durable, before, after))
    }

    fn own_blocks(&self, page: u64) -> impl Iterator<Item = u64> {
        let is_own = |block: &u64| owner(*block, self.life.nr_threads) == self.thread;
        (page * A_PAGE..(page + 1) * A_PAGE).filter(is_own)
    }

    /// Whether a block is as these writes have left it.
    fn has_block(&self, nr: u64, writes: &[Written], before: &[u8], after: &[u8]) -> bool {
        let last = writes.iter().rev().find(|write| write.blocks.contains(&nr));
        let found = bytes_of(nr, after);
        match last {
            Some(write) => *found == block(nr, self.version(write.number)),
            None => *found == *bytes_of(nr, before),
        }
    }

    /// What is wrong with a page.
    fn describe(
        &self,
        page: u64,
        writes: &[Written],
        nr_durable: usize,
        before: &[u8],
        after: &[u8],
    ) -> String {
        let durable = &writes[..nr_durable];
        let wrong = |nr: &u64| {
            // Neither what was durable nor anything since.
            !(nr_durable..=writes.len())
                .any(|nr_writes| self.has_block(*nr, &writes[..nr_writes], before, after))
        };
        let thread = self.thread;
        let Some(nr) = self.own_blocks(page).find(wrong) else {
            return format!(
                "page {page} is torn: of what thread {thread} did there it has something later \
                 without something earlier"
            );
        };
        let found = match Block::of(nr, bytes_of(nr, after)) {
            Block::Zeros => "zeros".to_owned(),
            Block::Version(version) => ops::describe(version),
            Block::Foreign => "torn or foreign bytes".to_owned(),
        };
        let last = durable
            .iter()
            .rev()
            .find(|write| write.blocks.contains(&nr));
        match last {
            Some(write) => format!(
                "block {nr} has {found}, though a sync has acknowledged {}",
                ops::describe(self.version(write.number))
            ),
            None => format!("block {nr} has {found}, which nobody wrote there"),
        }
    }

    /// Rules 1 to 4 for the tail.
    fn check_tail(&self, unit: usize, before: &[u8], after: &[u8]) -> Result<(), String> {
        let mut model = Model::new(before.to_vec()).in_blocks(unit);
        for (number, op) in &self.ops {
            let Op::Tail(tail) = op else { continue };
            let new = |len| content(self.version(*number), len);
            match *tail {
                Tail::Append { len } => model.write(model.len(), &new(len), 0),
                Tail::Write { pos, len } => model.write(pos as usize, &new(len), 0),
                Tail::SetLen(len) => model.set_len(len as usize, 0),
            }
            if *number <= self.nr_durable {
                model.synced();
            }
        }
        if !model.may_be(after.len()) {
            return Err(format!(
                "the size is {}, which it was at no time since it was acknowledged",
                TAIL_START + after.len() as u64
            ));
        }
        match model.may_have_pages(0, after) {
            None => Ok(()),
            Some(pos) => Err(format!(
                "the page at byte {} is none that was acknowledged or written since",
                TAIL_START + pos as u64
            )),
        }
    }
}

fn bytes_of(nr: u64, bytes: &[u8]) -> &[u8] {
    &bytes[nr as usize * BLOCK..][..BLOCK]
}

#[cfg(test)]
mod tests {
    use super::super::life::Syncs;
    use super::*;

    /// A process of one thread, and its first operations on blocks and on the tail.
    fn life() -> Life {
        Life::of(5, 1, Some(1))
    }

    fn empty() -> Vec<u8> {
        vec![0; TAIL_START as usize]
    }

    /// What the file has after the first `nr` operations.
    fn after(life: &Life, nr: u64) -> Vec<u8> {
        let mut ops = Ops::new(life, 0, 0);
        let mut bytes = empty();
        for _ in 0..nr {
            let (number, op) = ops.next();
            let version = version(life.number, 0, number);
            match op {
                Op::Write(blocks) => blocks.for_each(|nr| put(&mut bytes, nr, version)),
                Op::PinMut(nr) => put(&mut bytes, nr, version),
                Op::Tail(tail) => {
                    let (pos, new) = match tail {
                        Tail::Append { len } => (bytes.len(), content(version, len)),
                        Tail::Write { pos, len } => {
                            ((TAIL_START + pos) as usize, content(version, len))
                        }
                        Tail::SetLen(len) => {
                            bytes.resize((TAIL_START + len) as usize, 0);
                            continue;
                        }
                    };
                    bytes.resize(bytes.len().max(pos + new.len()), 0);
                    bytes[pos..pos + new.len()].copy_from_slice(&new);
                }
                _ => {}
            }
        }
        bytes
    }

    fn put(bytes: &mut [u8], nr: u64, version: u64) {
        bytes[nr as usize * BLOCK..][..BLOCK].copy_from_slice(&block(nr, version));
    }

    /// The number of the `nr`th sync.
    fn sync(life: &Life, nr: usize) -> u64 {
        let mut ops = Ops::new(life, 0, 0);
        std::iter::repeat_with(|| ops.next())
            .filter(|(_, op)| matches!(op, Op::SyncData | Op::SyncAll))
            .map(|(number, _)| number)
            .nth(nr)
            .expect("endless")
    }

    fn acknowledged(life: &Life, sync: u64) -> Acknowledged {
        let mut acknowledged = Acknowledged::nothing(life);
        let line = format!("synced 0 {sync} {}", sync - 1);
        acknowledged.take(&line).expect("a report");
        acknowledged
    }

    #[test]
    fn everything_between_an_acknowledged_sync_and_the_next_is_allowed_and_nothing_else() {
        let life = life();
        assert_eq!(life.syncs, Syncs::Often);
        let (first, second, third) = (sync(&life, 20), sync(&life, 21), sync(&life, 22));
        assert!(second > first + 5, "the test is of something");
        let acknowledged = acknowledged(&life, first);
        let check = |nr| check(&life, 1, (&empty(), &after(&life, nr)), &acknowledged);
        for nr in first - 1..second {
            check(nr).unwrap();
        }
        for lost in [0, first / 2, sync(&life, 19) - 1] {
            check(lost).unwrap_err();
        }
        check(third).unwrap_err();
    }

    #[test]
    fn torn_foreign_and_half_written_pages_are_found() {
        let life = life();
        let sync = sync(&life, 20);
        let acknowledged = acknowledged(&life, sync);
        let good = after(&life, sync - 1);
        let check = |bytes: &[u8]| check(&life, 1, (&empty(), bytes), &acknowledged);
        check(&good).unwrap();
        let nr = (0..).find(|nr| Block::of(*nr, bytes_of(*nr, &good)) != Block::Zeros);
        let nr = nr.expect("a block was written");
        for (at, value) in [(0, 0xFF), (BLOCK - 1, 0)] {
            let mut bytes = good.clone();
            bytes[nr as usize * BLOCK + at] ^= value | 1;
            check(&bytes).unwrap_err();
        }
        let mut bytes = good.clone();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        assert!(bytes.len() as u64 > TAIL_START);
        check(&bytes).unwrap_err();
        check(&good[..last]).unwrap_err();
        check(&good[..100]).unwrap_err();
    }

    #[test]
    fn a_page_with_something_later_but_not_what_came_before_is_torn() {
        let life = life();
        let acknowledged = Acknowledged::nothing(&life);
        let done = Done::new(&life, 0, 0, &acknowledged);
        let writes = |number: u64, blocks: Range<u64>| Written { number, blocks };
        let all = [writes(1, 0..2), writes(2, 1..3)];
        let before = empty();
        let mut bytes = empty();
        put(&mut bytes, 0, done.version(1));
        put(&mut bytes, 1, done.version(2));
        put(&mut bytes, 2, done.version(2));
        done.check_page(0, &all, &before, &bytes).unwrap();
        put(&mut bytes, 0, 0);
        let error = done.check_page(0, &all, &before, &bytes).unwrap_err();
        assert!(error.contains("block 0"), "{error}");
        bytes[..BLOCK].fill(0);
        let error = done.check_page(0, &all, &before, &bytes).unwrap_err();
        assert!(error.contains("torn"), "{error}");
    }

    #[test]
    fn only_whole_reports_are_taken() {
        let life = Life::of(1, 1, Some(2));
        let mut acknowledged = Acknowledged::nothing(&life);
        for line in [
            "ready",
            "synced",
            "synced 0 5 4",
            "synced 2 5 4 3",
            "synced 0 x 4 3",
        ] {
            assert_eq!(acknowledged.take(line), None, "{line}");
        }
        acknowledged.take("synced 0 5 4 9").unwrap();
        acknowledged.take("synced 1 8 3 7").unwrap();
        assert_eq!(acknowledged.counts, [4, 9]);
        assert_eq!(
            (acknowledged.last_syncs, acknowledged.nr_syncs),
            (vec![5, 8], 2)
        );
    }
}
