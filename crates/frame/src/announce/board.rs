//! The memory of the hazard slots, which outlives pools (I5 and I6 of [`announce`](super)).

#![allow(clippy::needless_borrow)] // `Lasting` is an `Arc` in a model.

use pagewell_sync::lasting::{Lasting, lasting, lasting_slice};
use pagewell_sync::{Mutex, MutexGuard, lock, scaled, try_lock};

use super::slot::Block;

/// Hazard table of a pool: its slots and its gate. It is never freed; a later pool may reuse it.
#[derive(Clone, Debug)]
pub(super) struct Board {
    blocks: Lasting<[Block]>,
    gate: Lasting<Gate>,
    /// Number of this pool among those that have used the table, counted from 0.
    term: u64,
}

/// Term of the pool that uses the table now. That pool exists while a thread holds the lock.
type Gate = Mutex<u64>;

/// Handle by which a thread enters the gate after it has ended a hazard. Created before the end.
#[derive(Debug)]
pub(crate) struct Exit {
    gate: Lasting<Gate>,
    term: u64,
    /// Keeps the slots allocated in a model.
    #[cfg(loom)]
    _blocks: Lasting<[Block]>,
}

/// Guard of the gate: while it exists, no other thread can release the pool.
#[derive(Debug)]
pub(crate) struct Entered<'e> {
    gate: MutexGuard<'e, u64>,
}

impl Exit {
    /// Locks the gate. Returns `None`, with the gate unlocked, if the pool was released.
    pub(crate) fn enter(&self) -> Option<Entered<'_>> {
        let gate = lock(&self.gate);
        (*gate == self.term).then_some(Entered { gate })
    }
}

impl Entered<'_> {
    /// Closes the gate: no thread [enters](Exit::enter) after this.
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

/// Unused hazard tables. The lock is `std`'s, because the list outlives a simulation.
static FREE: std::sync::Mutex<Vec<Board>> = std::sync::Mutex::new(Vec::new());

/// A model frees its tables, since loom's objects are valid in one execution only.
const ARE_REUSED: bool = scaled(true, false);

/// Maximum number of attempts, after which a hazard table is leaked or a new one is created.
const TRIES: u32 = 1000;

/// Tries to acquire a lock that is held only briefly, except in a child of `fork`, where it is
/// never released if a thread of the parent held it.
fn try_for_a_while<L>(mut try_lock: impl FnMut() -> Option<L>) -> Option<L> {
    (0..TRIES).find_map(|_| {
        let locked = try_lock();
        if locked.is_none() {
            std::thread::yield_now();
        }
        locked
    })
}

fn free() -> Option<std::sync::MutexGuard<'static, Vec<Board>>> {
    use std::sync::TryLockError;
    try_for_a_while(|| match FREE.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    })
}

impl Board {
    pub(super) fn take(nr_threads: usize) -> Self {
        let left = free().and_then(|mut free| {
            let mut boards = free.iter();
            let at = boards.position(|board| board.blocks.len() == nr_threads)?;
            Some(free.swap_remove(at))
        });
        // A new table takes the steps of a reused one, so no simulation depends on earlier ones.
        let board = left.unwrap_or_else(|| Self::new(nr_threads));
        // The last pool was released, so the gate is held briefly, or forever in a child of `fork`.
        let gate = Lasting::<Gate>::clone(&board.gate);
        let gate = try_for_a_while(|| try_lock(&gate));
        match gate.as_deref().copied() {
            Some(term) => Self { term, ..board },
            None => Self::new(nr_threads),
        }
    }

    fn new(nr_threads: usize) -> Self {
        let blocks: Vec<_> = (0..nr_threads).map(|_| Block::new()).collect();
        Self {
            blocks: lasting_slice(blocks),
            gate: lasting(Mutex::new(0)),
            term: 0,
        }
    }

    /// Makes the table available to a later pool. The caller ensures that the gate is closed, or
    /// that no [`Exit`] of this term exists.
    pub(super) fn give_back(&self) {
        for block in self.blocks.iter() {
            block.clear();
        }
        if ARE_REUSED && let Some(mut free) = free() {
            free.push(self.clone());
        }
    }
}
