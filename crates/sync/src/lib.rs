//! Synchronization primitives of Pagewell.
//!
//! Code above this crate takes its atomics from here, from `std` or `loom`, so the models explore
//! the code that ships. The exception is `pagewell-policy`, which depends on no crate: its notes
//! use `std`'s atomics directly. The notes are hints with relaxed accesses, which order no other
//! memory, and no model covers them.
//!
//! | module | content |
//! |---|---|
//! | [`asymmetric`] | a full fence for a frequent and a rare side; the rare side bears the cost |
//! | [`atomic`] | atomic types and fences |
//! | `counted` | atomics that record writes to shared memory, for one test |
//! | [`bytes`] | memory that other threads may be writing, and copies from it and to it |
//! | [`cell`] | cells and lifetimes that models check |
//! | [`parking`] | waiting for a word to change |
//! | [`per_thread`] | one value for each thread, which other threads can still access |
//! | [`prefetch`] | cache-line prefetch, and a hint for register allocation |
//! | [`raced`] | a value initialized once, without waiting for another thread |
//! | [`reserve`] | addresses for large arrays |
//! | `simulated` | locks, atomics, threads and time of a simulation, scheduled from a seed |
//! | [`shard`] | thread numbers; values that do not share cache lines |
//! | `signals` | the signal mask of the library's threads |
//! | [`system`] | page size and limits that the operating system reports |
//! | [`thread`] | yielding, sleeping, starting threads |
//! | [`time`] | instants |
//! | [`wiped`] | a word that reads zero in a forked child |

#![deny(unsafe_code)]

// Page numbers are 64 bits wide, and the code indexes arrays by them. 64-bit words are loaded and
// stored atomically.
#[cfg(not(target_pointer_width = "64"))]
compile_error!("Pagewell needs a 64-bit target");

pub mod asymmetric;
pub mod atomic;
pub mod bytes;
pub mod cell;
#[cfg(all(pagewell_counted, not(loom)))]
pub mod counted;
pub mod parking;
pub mod per_thread;
pub mod prefetch;
pub mod raced;
pub mod reserve;
pub mod shard;
mod signals;
#[cfg(all(feature = "simulated", not(loom)))]
pub mod simulated;
pub mod system;
pub mod thread;
#[cfg(not(loom))]
pub mod time;
pub mod wiped;

/// `std`'s reference-counted pointers, or those of `counted` in the test that counts their updates.
#[cfg(all(pagewell_counted, not(loom)))]
pub use counted::{Arc, Weak};
#[cfg(not(all(pagewell_counted, not(loom))))]
pub use std::sync::{Arc, Weak};

#[cfg(loom)]
pub use loom::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(all(feature = "simulated", not(loom)))]
pub use simulated::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
};
#[cfg(not(any(feature = "simulated", loom)))]
pub use std::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Locks `mutex`, ignoring poison: the data is consistent whenever user code could unwind. Backends
/// and callbacks run with at most three locks held: a file's size lock, its writeback lock and, in
/// a thread that keeps the cache quiet, the lock `rounds`. The data that these locks guard is
/// consistent before every such call.
#[cfg_attr(pagewell_counted, track_caller)]
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    note_lock();
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Locks `mutex` like [`lock`]. Returns `None` if it is locked.
#[cfg(not(loom))]
#[cfg_attr(pagewell_counted, track_caller)]
pub fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    use std::sync::TryLockError;
    note_lock();
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Locks `lock` for reading, ignoring poison like [`lock`].
#[cfg_attr(pagewell_counted, track_caller)]
pub fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    note_lock();
    lock.read()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Locks `lock` for writing, ignoring poison like [`lock`].
#[cfg_attr(pagewell_counted, track_caller)]
pub fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    note_lock();
    lock.write()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Records a lock acquisition by one of the four functions above, with their caller's location.
/// Does nothing except in the build that counts acquisitions.
#[cfg_attr(pagewell_counted, track_caller)]
#[inline(always)]
fn note_lock() {
    #[cfg(all(pagewell_counted, not(loom)))]
    counted::note(counted::Kind::Lock);
}
