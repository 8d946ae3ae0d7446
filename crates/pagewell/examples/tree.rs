//! A B+tree that readers go down without a pin and without a lock, while several threads insert: views, tokens, and pages that are
//! published in order. `docs/guide/views-and-tokens.md` explains it.
//!
//!     cargo run --release --example tree
//!
//! Keys and values are numbers. Nodes are pages of a file; a page is never given back, and nothing is removed. What is synced, and when,
//! is another matter: `docs/durability.md`.

use std::error::Error as StdError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pagewell::{Cache, Error, File, OpenOptions, Token, Torn, View, Writeback, io::MemoryBackend};

const PAGE: usize = 4096;

/// The page of the root, which never moves.
const ROOT: u64 = 0;

/// A node: how many entries it has (two bytes), its height (two bytes, 0 for leaves), and from byte 8 on its entries by their keys. An entry is a
/// key and a value; in an inner node the value is the page of the child with the keys from this one on, up to the next entry's.
mod node {
    use std::cmp::Ordering;

    use super::{PAGE, Torn, View};

    /// Where the entries begin, and how long each is.
    const ENTRIES: usize = 8;
    const ENTRY: usize = 16;

    /// How many entries a node may have: few in tests, so that there are many nodes.
    pub(super) const CAPACITY: usize = if cfg!(test) {
        6
    } else {
        (PAGE - ENTRIES) / ENTRY
    };

    /// What a node says about a key.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Says {
        /// It is a leaf, and this is the key's value.
        Value(Option<u64>),
        /// It is an inner node: the key belongs to this child.
        Child(u64),
    }

    /// Looks for `key`; also tells whether the node is full.
    pub(super) fn find(v: &View<'_>, key: u64) -> Result<(Says, bool), Torn> {
        let count = usize::from(v.u16_le(0)?);
        let found = v.search(ENTRIES, ENTRY, count, |v, at| Ok(v.u64_le(at)?.cmp(&key)))?;
        let value_of = |nr: usize| v.u64_le(ENTRIES + nr * ENTRY + 8);
        let says = if v.u16_le(2)? == 0 {
            Says::Value(found.ok().map(value_of).transpose()?)
        } else {
            // The last entry that is not larger. The first one stands for all that is smaller, too.
            let nr = found.unwrap_or_else(|nr| nr.saturating_sub(1));
            Says::Child(value_of(nr)?)
        };
        Ok((says, count >= CAPACITY))
    }

    fn number<const N: usize>(page: &[u8], at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&page[at..at + N]);
        bytes
    }

    fn count(page: &[u8]) -> usize {
        u16::from_le_bytes(number(page, 0)).into()
    }

    fn set_head(page: &mut [u8], count: usize, height: u16) {
        page[..2].copy_from_slice(&(count as u16).to_le_bytes());
        page[2..4].copy_from_slice(&height.to_le_bytes());
    }

    fn height(page: &[u8]) -> u16 {
        u16::from_le_bytes(number(page, 2))
    }

    fn key(page: &[u8], nr: usize) -> u64 {
        u64::from_le_bytes(number(page, ENTRIES + nr * ENTRY))
    }

    /// Puts an entry into a node that is not full, or a new value into the entry that there is.
    pub(super) fn insert(page: &mut [u8], new: u64, value: u64) {
        let count = count(page);
        let mut nr = 0;
        while nr < count && key(page, nr).cmp(&new) == Ordering::Less {
            nr += 1;
        }
        let at = ENTRIES + nr * ENTRY;
        if nr == count || key(page, nr) != new {
            assert!(count < CAPACITY, "it was found not to be full");
            page.copy_within(at..ENTRIES + count * ENTRY, at + ENTRY);
            let height = height(page);
            set_head(page, count + 1, height);
        }
        page[at..at + 8].copy_from_slice(&new.to_le_bytes());
        page[at + 8..at + ENTRY].copy_from_slice(&value.to_le_bytes());
    }

    /// Moves the upper half of `left` to `right`, which is empty; returns the first key of that.
    pub(super) fn split(left: &mut [u8], right: &mut [u8]) -> u64 {
        let (count, height) = (count(left), height(left));
        let kept = count / 2;
        let moved = ENTRIES + kept * ENTRY..ENTRIES + count * ENTRY;
        right[ENTRIES..][..moved.len()].copy_from_slice(&left[moved]);
        set_head(right, count - kept, height);
        set_head(left, kept, height);
        key(right, 0)
    }

    /// Makes `root` the parent of two nodes one lower, of which the second begins at `key`.
    pub(super) fn make_parent(root: &mut [u8], left: u64, (key, right): (u64, u64)) {
        let above = height(root) + 1;
        set_head(root, 0, above);
        insert(root, 0, left);
        insert(root, key, right);
    }
}

/// The tree.
struct Tree {
    file: File,
}

/// A node on the way down: its page, and a token from when it was looked at.
type Step = (u64, Token);

/// Where the way down has ended.
struct Way {
    /// The node above the last one.
    above: Option<Step>,
    last: Step,
    says: node::Says,
    is_full: bool,
}

/// An attempt has met what another thread changes: start over.
struct StartOver;

impl Tree {
    fn get(&self, key: u64) -> Result<Option<u64>, Error> {
        loop {
            if let Ok(way) = self.go_down(key, false)?
                && let node::Says::Value(value) = way.says
            {
                return Ok(value);
            }
        }
    }

    /// Goes from the root to the leaf that `key` belongs to, or to the first node on the way that is full.
    fn go_down(&self, key: u64, stop_if_full: bool) -> Result<Result<Way, StartOver>, Error> {
        let (mut above, mut page) = (None, ROOT);
        loop {
            let seen = self
                .file
                .view(page, |v| Ok((node::find(v, key)?, v.token())));
            // Was this the node for the key, at the moment at which it was what we have seen? Only then, what it says counts, be
            // it an error: a page that the parent does not name any more may be anything.
            if let Some((_, token)) = &above
                && !self.file.is_unchanged(token)
            {
                return Ok(Err(StartOver));
            }
            let ((says, is_full), token) = seen?;
            let last = (page, token);
            match says {
                node::Says::Child(child) if !(is_full && stop_if_full) => {
                    (above, page) = (Some(last), child);
                }
                _ => {
                    return Ok(Ok(Way {
                        above,
                        last,
                        says,
                        is_full,
                    }));
                }
            }
        }
    }

    fn insert(&self, key: u64, value: u64) -> Result<(), Error> {
        loop {
            let Ok(way) = self.go_down(key, true)? else {
                continue;
            };
            let done = match way {
                Way { is_full: true, .. } => self.split(&way)?.map(|()| false),
                Way { last, .. } => self.insert_into(last, key, value)?.map(|()| true),
            };
            if let Ok(true) = done {
                return Ok(());
            }
        }
    }

    /// Locks a node, if it is still as it was seen.
    fn lock(
        &self,
        (page, token): Step,
    ) -> Result<Result<pagewell::PageGuardMut<'_>, StartOver>, Error> {
        let guard = self.file.pin_mut(page)?;
        // From now on it stays what it is.
        if self.file.is_unchanged(&token) {
            return Ok(Ok(guard));
        }
        guard.cancel();
        Ok(Err(StartOver))
    }

    fn insert_into(
        &self,
        leaf: Step,
        key: u64,
        value: u64,
    ) -> Result<Result<(), StartOver>, Error> {
        let mut leaf = match self.lock(leaf)? {
            Ok(leaf) => leaf,
            Err(start_over) => return Ok(Err(start_over)),
        };
        node::insert(&mut leaf, key, value);
        Ok(Ok(()))
    }

    /// A new page at the end of the file, locked. Nobody else knows of it.
    fn new_page(&self) -> Result<(u64, pagewell::PageGuardMut<'_>), Error> {
        let page = self.file.append(&[0; PAGE])?.start / PAGE as u64;
        Ok((page, self.file.pin_mut(page)?))
    }

    /// Splits the last node of a way, which is full; the one above is not.
    fn split(&self, way: &Way) -> Result<Result<(), StartOver>, Error> {
        // Locked from the top down, so that writers do not wait for each other in a circle. Whatever may fail comes before the
        // first change: a guard that is dropped has its page replaced by what it has.
        let mut parent = None;
        if let Some(above) = way.above {
            match self.lock(above)? {
                Ok(guard) => parent = Some(guard),
                Err(start_over) => return Ok(Err(start_over)),
            }
        }
        let mut full = match self.lock(way.last)? {
            Ok(guard) => guard,
            Err(start_over) => {
                if let Some(parent) = parent {
                    parent.cancel();
                }
                return Ok(Err(start_over));
            }
        };
        let (right_page, mut right) = self.new_page()?;
        match parent {
            Some(mut parent) => {
                let key = node::split(&mut full, &mut right);
                node::insert(&mut parent, key, right_page);
                // Where entries go, who says where they are, where they were; and nobody else changes any of these before that is done.
                let right = right.publish();
                let parent = parent.publish();
                let full = full.publish();
                drop((right, parent, full));
            }
            None => {
                // The root stays where it is, and its entries go to two new pages, which nobody finds before the root names them.
                let (left_page, mut left) = self.new_page()?;
                left.copy_from_slice(&full);
                let key = node::split(&mut left, &mut right);
                node::make_parent(&mut full, left_page, (key, right_page));
                drop((left, right));
                drop(full);
            }
        }
        Ok(Ok(()))
    }
}

fn tree() -> Result<Tree, Error> {
    let cache = Cache::builder().capacity(64 << 20).build()?;
    let options = OpenOptions::new().write().writeback(Writeback::Manual);
    let root = MemoryBackend::writable(vec![0; PAGE]);
    let file = cache.open_backend_with(root, "tree", &options)?;
    Ok(Tree { file })
}

/// Keys of a writer, in no order, and no other writer's.
fn key(writer: u64, nr: usize) -> u64 {
    // Odd, so that it goes through all numbers.
    (nr as u64)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .wrapping_mul(2)
        | (writer & 1)
}

/// Two threads insert so many keys each, while two others look for those that are in. Returns how often they looked.
fn run(tree: &Tree, nr_keys: usize) -> Result<usize, Error> {
    let inserted = [AtomicUsize::new(0), AtomicUsize::new(0)];
    let (is_over, nr_looks) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|reader| {
                let (inserted, is_over, nr_looks) = (&inserted, &is_over, &nr_looks);
                scope.spawn(move || -> Result<(), Error> {
                    let mut look = reader;
                    while !is_over.load(Ordering::Relaxed) {
                        look = look * 5 + 1;
                        let writer = look % 2;
                        let nr = inserted[writer].load(Ordering::Acquire);
                        if nr != 0 {
                            let nr = look / 2 % nr;
                            let value = tree.get(key(writer as u64, nr))?;
                            assert_eq!(value, Some(nr as u64), "a key was missed");
                            nr_looks.fetch_add(1, Ordering::Relaxed);
                        }
                        look %= 1 << 40;
                    }
                    Ok(())
                })
            })
            .collect();
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let inserted = &inserted;
                scope.spawn(move || -> Result<(), Error> {
                    for nr in 0..nr_keys {
                        tree.insert(key(writer as u64, nr), nr as u64)?;
                        inserted[writer].store(nr + 1, Ordering::Release);
                    }
                    Ok(())
                })
            })
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<(), Error>>| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        let written = writers.into_iter().try_for_each(join);
        is_over.store(true, Ordering::Relaxed);
        readers.into_iter().try_for_each(join)?;
        written
    })?;
    for writer in 0..2 {
        for nr in 0..nr_keys {
            assert_eq!(tree.get(key(writer, nr))?, Some(nr as u64));
        }
    }
    assert_eq!(tree.get(2)?, None);
    Ok(nr_looks.into_inner())
}

fn main() -> Result<(), Box<dyn StdError>> {
    let tree = tree()?;
    let nr_keys = 100_000;
    let nr_looks = run(&tree, nr_keys)?;
    let nr_pages = tree.file.size() / PAGE as u64;
    println!("2 x {nr_keys} keys in {nr_pages} pages; {nr_looks} looks meanwhile found theirs");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_while_nodes_are_split() {
        let tree = tree().expect("a file in memory");
        let nr_looks = run(&tree, 3000).expect("a tree");
        assert!(tree.file.size() > 1000 * PAGE as u64, "{nr_looks} looks");
    }
}
