//! The memory of the slots, which outlives pools: see I6 in the text of the room.

#![allow(clippy::needless_borrow)] // What lasts is a counted pointer in a model.

use pagewell_sync::{Mutex, MutexGuard, lock};

use super::slot::Block;

/// What is never freed. (A model has an end of its own, and no room for what all of its runs would leave.)
#[cfg(not(loom))]
type Lasting<T> = &'static T;
#[cfg(loom)]
type Lasting<T> = std::sync::Arc<T>;

/// The slots of a pool, and where to find out whether there still is that pool. Its memory is never freed; when the pool is gone, the next one
/// gets it.
#[derive(Clone, Debug)]
pub(super) struct Board {
    blocks: Lasting<[Block]>,
    gate: Lasting<Gate>,
    /// Which of all pools that have had the board it is.
    term: u64,
}

/// Which pool has the board now: as many have had it before. The holder of the lock may use that pool.
type Gate = Mutex<u64>;

/// What a holder of an announcement takes along from the pool before it ends the announcement.
#[derive(Debug)]
pub(crate) struct Exit {
    gate: Lasting<Gate>,
    term: u64,
    /// Elsewhere nothing has to keep them.
    #[cfg(loom)]
    _blocks: Lasting<[Block]>,
}

/// While this exists, nobody else lets go of the pool.
#[derive(Debug)]
pub(crate) struct Entered<'e> {
    gate: MutexGuard<'e, u64>,
}

impl Exit {
    /// Gets hold of the pool, if it has not been let go of.
    pub(crate) fn enter(&self) -> Option<Entered<'_>> {
        let gate = lock(&self.gate);
        (*gate == self.term).then_some(Entered { gate })
    }
}

impl Entered<'_> {
    /// The pool is about to be let go of: nobody [enters](Exit::enter) after this.
    pub(super) fn close(&mut self) {
        *self.gate += 1;
    }
}

impl Board {
    #[inline(always)]
    pub(super) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    #[inline(always)]
    pub(super) fn exit(&self) -> Exit {
        Exit {
            gate: Lasting::<Gate>::clone(&self.gate),
            term: self.term,
            #[cfg(loom)]
            _blocks: Lasting::<[Block]>::clone(&self.blocks),
        }
    }
}

#[cfg(loom)]
impl Board {
    pub(super) fn take(nr_threads: usize) -> Self {
        Self {
            blocks: (0..nr_threads).map(|_| Block::new()).collect(),
            gate: std::sync::Arc::new(Mutex::new(0)),
            term: 0,
        }
    }

    /// It ends with the run.
    pub(super) fn give_back(&self) {}
}

/// Boards that no pool has. (By std's lock, in a simulation too: it is of the process, and not of one of its simulations.)
#[cfg(not(loom))]
static FREE: std::sync::Mutex<Vec<Board>> = std::sync::Mutex::new(Vec::new());

/// How often a thread tries to have a lock before it does without, and leaves a board unused.
#[cfg(not(loom))]
const TRIES: u32 = 1000;

/// Tries to get a lock that others hold for some steps only; but in a child of `fork` it may be held for ever, by a thread of the parent.
#[cfg(not(loom))]
fn try_for_a_while<L>(mut try_lock: impl FnMut() -> Option<L>) -> Option<L> {
    (0..TRIES).find_map(|_| {
        let locked = try_lock();
        if locked.is_none() {
            std::thread::yield_now();
        }
        locked
    })
}

#[cfg(not(loom))]
fn free() -> Option<std::sync::MutexGuard<'static, Vec<Board>>> {
    use std::sync::TryLockError;
    try_for_a_while(|| match FREE.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    })
}

#[cfg(not(loom))]
impl Board {
    /// One for so many threads, that no other pool has.
    pub(super) fn take(nr_threads: usize) -> Self {
        let left = free().and_then(|mut free| {
            let mut boards = free.iter();
            let at = boards.position(|board| board.blocks.len() == nr_threads)?;
            Some(free.swap_remove(at))
        });
        // The steps are the same for a new board, so that a simulation does not depend on those before it.
        let board = left.unwrap_or_else(|| Self::new(nr_threads));
        // Its pool is gone, so nobody has the gate for long; but who has it may be lost, as above.
        let gate = try_for_a_while(|| pagewell_sync::try_lock(board.gate));
        match gate.as_deref().copied() {
            Some(term) => Self { term, ..board },
            None => Self::new(nr_threads),
        }
    }

    fn new(nr_threads: usize) -> Self {
        let blocks: Vec<_> = (0..nr_threads).map(|_| Block::new()).collect();
        Self {
            blocks: blocks.leak(),
            gate: Box::leak(Box::new(Mutex::new(0))),
            term: 0,
        }
    }

    /// Gives it to the next pool. This one is gone: it was let go of by who [closed](Entered::close) the gate, or has never had an owner who left it, and
    /// then there is no [`Exit`] of it.
    pub(super) fn give_back(&self) {
        for block in self.blocks {
            block.clear();
        }
        if let Some(mut free) = free() {
            free.push(self.clone());
        }
    }
}
