//! One life of the program: its threads, what each does, and the checks of every answer.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pagewell::{Advice, Cache, Error, ErrorKind, File, OwnedPageGuard, ReadRequest};
use pagewell_sync::thread::sleep;
use pagewell_testkit::Rng;

use super::books::{Books, Stamp};
use super::plan::{A_PAGE, About, Plan, Value};
use super::task::block_on;
use crate::block::{BLOCK, block};

/// The most blocks that are read at once.
const MOST_READ: usize = 3 * A_PAGE;

/// What all threads of a life have in hand.
pub(super) struct Life {
    pub(super) plan: Plan,
    pub(super) number: u64,
    pub(super) cache: Cache,
    pub(super) books: Arc<Mutex<Books>>,
    pub(super) told: Arc<Mutex<Told>>,
    /// Whether the power goes in this life.
    pub(super) ends_suddenly: bool,
}

/// What was done, and what was found.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) steps: Vec<String>,
    pub(super) failure: Option<String>,
    pub(super) nr_ops: u64,
    pub(super) nr_syncs: u64,
    pub(super) nr_dropped: u64,
    pub(super) nr_errors: u64,
}

/// One thread.
pub(super) struct Worker {
    life: Arc<Life>,
    thread: usize,
    file: File,
    rng: Rng,
    pins: Vec<(OwnedPageGuard, Vec<u8>)>,
    /// Blocks of which a write was given up: it may come at any time.
    given_up: Vec<bool>,
    is_tail_given_up: bool,
    nr_ops: u64,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Worker {
    pub(super) fn new(life: Arc<Life>, thread: usize, file: File) -> Self {
        let seed = life.plan.seed;
        let part = life.number * 64 + thread as u64 + 100;
        Self {
            rng: Rng::part(seed, part),
            given_up: vec![false; life.plan.shape.most_blocks()],
            is_tail_given_up: false,
            pins: Vec::new(),
            nr_ops: 0,
            thread,
            file,
            life,
        }
    }

    /// All operations, until one is found to be wrong, by whatever thread.
    pub(super) fn work(mut self) {
        for _ in 0..self.life.plan.nr_ops {
            if locked(&self.life.told).failure.is_some() {
                return;
            }
            if let Err(why) = self.step() {
                self.fail(why);
                return;
            }
            let changed = self.pins.iter().any(|(guard, copy)| **guard != **copy);
            if changed {
                self.fail("a pinned page has changed".to_owned());
                return;
            }
        }
    }

    fn fail(&self, why: String) {
        let thread = self.thread;
        let told = &mut locked(&self.life.told);
        let nr = told.steps.len();
        told.failure
            .get_or_insert(format!("{why} (thread {thread}, step {nr})"));
    }

    fn books<T>(&self, ask: impl FnOnce(&mut Books) -> T) -> T {
        ask(&mut locked(&self.life.books))
    }

    fn now(&self) -> Stamp {
        self.books(Books::stamp)
    }

    fn note(&mut self, what: impl Debug) {
        let told = &mut locked(&self.life.told);
        let (life, thread) = (self.life.number, self.thread);
        told.steps.push(format!("{life}.{thread} {what:?}"));
        told.nr_ops += 1;
    }

    /// The answer, or none for an error that may be.
    fn allow<T>(&self, what: &str, result: Result<T, Error>) -> Result<Option<T>, String> {
        let error = match result {
            Ok(answer) => return Ok(Some(answer)),
            Err(error) => error,
        };
        let plan = &self.life.plan;
        let is_expected = match error.kind() {
            ErrorKind::Io | ErrorKind::Truncated => plan.may_fail() || self.life.ends_suddenly,
            // The cache is as small as can be, and threads have pages pinned.
            ErrorKind::OutOfFrames | ErrorKind::Throttled => true,
            _ => false,
        };
        let told = &mut locked(&self.life.told);
        told.nr_errors += 1;
        told.steps.push(format!("  {what}: {:?}", error.kind()));
        match is_expected {
            true => Ok(None),
            false => Err(format!("{what} fails without reason: {error:?}")),
        }
    }

    /// A version of this operation.
    fn version(&self) -> u64 {
        ((self.life.number + 1) << 32) | (self.nr_ops << 8) | self.thread as u64
    }

    /// After how many polls a future is dropped.
    fn most_polls(&mut self) -> u64 {
        match self.rng.below(256) < self.life.plan.drops {
            true => 1 + self.rng.below(3),
            false => u64::MAX,
        }
    }

    fn step(&mut self) -> Result<(), String> {
        self.nr_ops += 1;
        let about = match self.rng.below(8) {
            0 => About::All,
            _ => self.life.plan.about,
        };
        let what = match about {
            About::All => self.rng.below(40),
            // Append, cut, sync, advise, evict, drop.
            About::Tail if self.thread == 0 => [22, 25, 25, 26, 27, 33, 35, 36][self.rng.index(8)],
            // Read, in several ways.
            About::Tail => [9, 10, 17, 31, 33, 33, 35, 36][self.rng.index(8)],
            // Write, sync, read.
            About::Syncs => [0, 0, 0, 27, 27, 28, 28, 9][self.rng.index(8)],
        };
        match what {
            0..9 => self.write(),
            9..17 => self.read(),
            17..19 => self.read_many(),
            19..21 => self.pin(),
            21 => self.pin_mut(),
            22..25 if self.thread == 0 => self.append(),
            25..27 if self.thread == 0 => self.cut(),
            22..29 => self.sync(),
            29..31 => self.sync_range(),
            31 => self.flush(),
            32 => {
                self.pins.clear();
                Ok(())
            }
            33..35 => self.advise(),
            35 => {
                let nr = 1 + self.rng.index(20);
                self.note(("reclaim", nr));
                self.life.cache.reclaim(nr);
                Ok(())
            }
            36 => {
                let range = self.range();
                self.note(("invalidate", &range));
                self.file.invalidate(bytes_of(&range));
                Ok(())
            }
            37 => {
                self.note("another handle");
                self.file = self.file.clone();
                Ok(())
            }
            _ => {
                let time = Duration::from_micros(self.rng.below(300_000));
                self.note(("sleep", time));
                sleep(time);
                Ok(())
            }
        }
    }

    fn range(&mut self) -> Range<usize> {
        let shape = self.life.plan.shape;
        let first = match self.life.plan.about == About::Tail && self.rng.below(4) != 0 {
            true => shape.nr_blocks,
            false => 0,
        };
        let start = first + self.rng.index(shape.most_blocks() - first);
        start..start + 1 + self.rng.index(MOST_READ)
    }

    /// Own blocks of which no write was given up.
    fn own(&mut self) -> Option<Range<usize>> {
        let own = self.life.plan.shape.own(self.thread, &mut self.rng);
        let is_free = !self.given_up[own.clone()].iter().any(|given_up| *given_up);
        is_free.then_some(own)
    }

    fn begin(&self, blocks: &Range<usize>, value: Value) {
        self.books(|books| blocks.clone().for_each(|nr| books.begin(nr, value)));
    }

    fn end(&self, blocks: Range<usize>) {
        self.books(|books| blocks.for_each(|nr| books.end(nr)));
    }

    fn write(&mut self) -> Result<(), String> {
        let Some(blocks) = self.own() else {
            return Ok(());
        };
        let version = self.version();
        let bytes = contents(&blocks, version);
        self.note(("write", &blocks));
        self.begin(&blocks, Value::Version(version));
        let pos = (blocks.start * BLOCK) as u64;
        let result = if self.rng.one_in(2) {
            self.file.write_at(&bytes, pos)
        } else {
            let most_polls = self.most_polls();
            let file = self.file.clone();
            match block_on(Box::pin(file.write_at_async(bytes, pos)), most_polls) {
                Some((_, result)) => result,
                None => {
                    self.give_up(&blocks);
                    return Ok(());
                }
            }
        };
        if let Some(written) = self.allow("write", result)? {
            let nr = written / BLOCK;
            if nr != blocks.len() && !self.may_fall_short() {
                return Err(format!(
                    "{written} bytes written of {} blocks",
                    blocks.len()
                ));
            }
            self.end(blocks.start..blocks.start + nr);
        }
        Ok(())
    }

    /// Whether a call over several pages may have done the first of them only.
    fn may_fall_short(&self) -> bool {
        // Also where there is no frame for one of the others.
        true
    }

    fn give_up(&mut self, blocks: &Range<usize>) {
        self.given_up[blocks.clone()].fill(true);
        locked(&self.life.told).nr_dropped += 1;
    }

    fn pin_mut(&mut self) -> Result<(), String> {
        let Some(blocks) = self.own() else {
            return Ok(());
        };
        let nr = blocks.start;
        self.note(("pin_mut", nr));
        let (page, off) = self.place(nr);
        let result = self.file.pin_mut(page);
        let Some(mut guard) = self.allow("pin_mut", result)? else {
            return Ok(());
        };
        let version = self.version();
        self.begin(&(nr..nr + 1), Value::Version(version));
        guard[off..off + BLOCK].copy_from_slice(&block(nr as u64, version));
        if self.rng.one_in(2) {
            // Others want the page meanwhile.
            sleep(Duration::from_micros(self.rng.below(300)));
        }
        drop(guard);
        self.end(nr..nr + 1);
        Ok(())
    }

    /// The page of a block, and where in it.
    fn place(&self, block: usize) -> (u64, usize) {
        let (pos, page_size) = (block * BLOCK, self.life.plan.page_size);
        ((pos / page_size) as u64, pos % page_size)
    }

    fn check_read(&self, pos: usize, bytes: &[u8], len: usize, from: Stamp) -> Result<(), String> {
        self.books(|books| {
            let place = ((pos * BLOCK) as u64, len);
            books.check_len(place, bytes.len(), from, true)?;
            books.check_read(pos, bytes, from)
        })
    }

    fn read(&mut self) -> Result<(), String> {
        let range = self.range();
        let len = range.len() * BLOCK;
        let pos = (range.start * BLOCK) as u64;
        let mut buf = vec![0xA5; len];
        let way = self.rng.below(3);
        self.note(("read", way, &range));
        let from = self.now();
        let result = match way {
            0 => self.file.read_at(&mut buf, pos),
            1 => self.file.read_at_referenced(&mut buf, pos),
            _ => {
                let most_polls = self.most_polls();
                let file = self.file.clone();
                match block_on(Box::pin(file.read_at_async(buf, pos)), most_polls) {
                    Some((filled, result)) => {
                        buf = filled;
                        result
                    }
                    None => {
                        locked(&self.life.told).nr_dropped += 1;
                        return Ok(());
                    }
                }
            }
        };
        match self.allow("read", result)? {
            Some(nr) => self.check_read(range.start, &buf[..nr], len, from),
            None => Ok(()),
        }
    }

    fn read_many(&mut self) -> Result<(), String> {
        let ranges: Vec<_> = (0..2 + self.rng.index(4)).map(|_| self.range()).collect();
        let is_async = self.rng.one_in(2);
        self.note(("read_many", is_async, &ranges));
        let from = self.now();
        let pos = |range: &Range<usize>| (range.start * BLOCK) as u64;
        let buf = |range: &Range<usize>| vec![0xA5; range.len() * BLOCK];
        let answers: Vec<(Vec<u8>, Result<usize, Error>)> = if is_async {
            let reads = ranges.iter().map(|range| (pos(range), buf(range)));
            let most_polls = self.most_polls();
            let file = self.file.clone();
            let future = Box::pin(file.read_many_async(reads.collect()));
            match block_on(future, most_polls) {
                Some(answers) => answers,
                None => {
                    locked(&self.life.told).nr_dropped += 1;
                    return Ok(());
                }
            }
        } else {
            let mut bufs: Vec<_> = ranges.iter().map(buf).collect();
            let mut requests: Vec<_> = std::iter::zip(&ranges, &mut bufs)
                .map(|(range, buf)| ReadRequest::new(pos(range), buf))
                .collect();
            self.file.read_many(&mut requests);
            let results: Vec<_> = requests.into_iter().map(|request| request.result).collect();
            std::iter::zip(bufs, results).collect()
        };
        for (range, (buf, result)) in std::iter::zip(ranges, answers) {
            if let Some(nr) = self.allow("read_many", result)? {
                self.check_read(range.start, &buf[..nr], buf.len(), from)?;
            }
        }
        Ok(())
    }

    fn pin(&mut self) -> Result<(), String> {
        let nr = self.rng.index(self.life.plan.shape.nr_blocks);
        let (page, _) = self.place(nr);
        let is_async = self.rng.one_in(2);
        self.note(("pin", is_async, page));
        let from = self.now();
        let result = if is_async {
            let most_polls = self.most_polls();
            let file = self.file.clone();
            match block_on(Box::pin(file.pin_async(page)), most_polls) {
                Some(result) => result,
                None => {
                    locked(&self.life.told).nr_dropped += 1;
                    return Ok(());
                }
            }
        } else {
            self.file.pin_owned(page)
        };
        if let Some(guard) = self.allow("pin", result)? {
            let copy = guard.to_vec();
            let first = page as usize * self.life.plan.page_size / BLOCK;
            self.check_read(first, &copy, self.life.plan.page_size, from)?;
            if self.pins.is_empty() {
                self.pins.push((guard, copy));
            }
        }
        Ok(())
    }

    fn append(&mut self) -> Result<(), String> {
        if self.is_tail_given_up {
            return Ok(());
        }
        let size = self.books(|books| books.size.last());
        let first = size as usize / BLOCK;
        let most = self.life.plan.shape.most_blocks().saturating_sub(first);
        let blocks = first..first + most.min(1 + self.rng.index(2 * A_PAGE));
        if blocks.is_empty() {
            return Ok(());
        }
        let version = self.version();
        let bytes = contents(&blocks, version);
        self.note(("append", &blocks));
        let end = (blocks.end * BLOCK) as u64;
        self.begin(&blocks, Value::Version(version));
        self.books(|books| {
            let now = books.stamp();
            books.size.begin(end, now);
        });
        let result = if self.rng.one_in(2) {
            self.file.append(&bytes)
        } else {
            let most_polls = self.most_polls();
            let file = self.file.clone();
            match block_on(Box::pin(file.append_async(bytes)), most_polls) {
                Some((_, result)) => result,
                None => {
                    self.is_tail_given_up = true;
                    locked(&self.life.told).nr_dropped += 1;
                    return Ok(());
                }
            }
        };
        match self.allow("append", result)? {
            Some(at) if at == (size..end) => {
                self.end(blocks);
                self.size_is(end);
                Ok(())
            }
            Some(at) => Err(format!("appended at {at:?}, not {size}..{end}")),
            // All or nothing.
            None => self.tail_failed(),
        }
    }

    fn cut(&mut self) -> Result<(), String> {
        if self.is_tail_given_up {
            return Ok(());
        }
        let shape = self.life.plan.shape;
        let nr = shape.nr_blocks + self.rng.index(shape.most_tail);
        let size = (nr * BLOCK) as u64;
        self.note(("set_size", nr));
        self.begin(&(nr..shape.most_blocks()), Value::Zeros);
        self.books(|books| {
            let now = books.stamp();
            books.size.begin(size, now);
        });
        let result = self.file.set_size(size);
        match self.allow("set_size", result)? {
            Some(()) => {
                self.end(nr..shape.most_blocks());
                self.size_is(size);
                Ok(())
            }
            None => self.tail_failed(),
        }
    }

    fn size_is(&self, size: u64) {
        self.books(|books| {
            let now = books.stamp();
            books.size.end(now);
            debug_assert!(books.size.last() == size);
        });
    }

    /// A change of the size has failed: it was made or not, and the file says which.
    fn tail_failed(&mut self) -> Result<(), String> {
        let size = self.file.size();
        let (from, is_known) = (self.now(), |may: &u64| *may == size);
        let now = from;
        if !self.books(|books| books.size.readable(from, now).any(|may| is_known(&may))) {
            return Err(format!("the size is {size} after a change that failed"));
        }
        // What its blocks are is not found out: nothing more is done to the tail.
        self.is_tail_given_up = true;
        Ok(())
    }

    fn sync(&mut self) -> Result<(), String> {
        let way = self.rng.below(3);
        self.note(("sync", way));
        let from = self.now();
        let result = match way {
            0 => self.file.sync_data(),
            1 => self.file.sync_all(),
            _ => {
                let most_polls = self.most_polls();
                let file = self.file.clone();
                match block_on(Box::pin(file.sync_data_async()), most_polls) {
                    Some(result) => result,
                    None => {
                        locked(&self.life.told).nr_dropped += 1;
                        return Ok(());
                    }
                }
            }
        };
        if self.allow("sync", result)?.is_some() {
            self.books(|books| books.synced(from, None));
            locked(&self.life.told).nr_syncs += 1;
        }
        Ok(())
    }

    fn sync_range(&mut self) -> Result<(), String> {
        // Of the blocks that are always there.
        let nr_blocks = self.life.plan.shape.nr_blocks;
        let start = self.rng.index(nr_blocks);
        let range = start..(start + 1 + self.rng.index(MOST_READ)).min(nr_blocks);
        self.note(("sync_range", &range));
        let from = self.now();
        let result = self.file.sync_range(bytes_of(&range));
        if self.allow("sync_range", result)?.is_some() {
            self.books(|books| books.synced(from, Some(range)));
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), String> {
        let range = self.range();
        self.note(("flush", &range));
        let result = self.file.flush(bytes_of(&range));
        self.allow("flush", result).map(drop)
    }

    fn advise(&mut self) -> Result<(), String> {
        let range = self.range();
        let advice = [
            Advice::Normal,
            Advice::Sequential,
            Advice::Random,
            Advice::Once,
            Advice::Soon,
            Advice::NotSoon,
        ][self.rng.index(6)];
        self.note((advice, &range));
        let result = match self.rng.one_in(2) {
            true => self.file.prefetch(&[bytes_of(&range)]).map(drop),
            false => self.file.advise(bytes_of(&range), advice),
        };
        self.allow("advise", result).map(drop)
    }
}

fn bytes_of(blocks: &Range<usize>) -> Range<u64> {
    (blocks.start * BLOCK) as u64..(blocks.end * BLOCK) as u64
}

fn contents(blocks: &Range<usize>, version: u64) -> Vec<u8> {
    blocks
        .clone()
        .flat_map(|nr| block(nr as u64, version))
        .collect()
}
