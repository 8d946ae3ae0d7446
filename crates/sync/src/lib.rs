//! The synchronisation primitives of Pagewell.
//!
//! Only this crate names the atomics of `std` or of `loom`. Everything above it is written
//! once and runs in both, so the models explore the code that ships. (The notes of
//! `pagewell-policy`, which depends on nothing, are relaxed hints in `std`'s atomics. No model
//! sees them, and nothing is ordered by them.)
//!
//! | module | what |
//! |---|---|
//! | [`asymmetric`] | a full fence for a frequent and a rare side, which the rare side pays for |
//! | [`atomic`] | the atomic types and fences |
//! | `counted` | the atomics of one test, which note what is written to memory that threads share |
//! | [`bytes`] | memory that other threads may be writing, and the copy out of it |
//! | [`cell`] | cells that models check, and lives |
//! | [`parking`] | waiting for a word to change |
//! | [`per_thread`] | one value for each thread, which others can still reach |
//! | [`raced`] | a value that is made once, and for which nobody waits |
//! | `simulated` | one schedule that a seed decides: locks, atomics, threads and time of a simulation |
//! | [`shard`] | the number of a thread; values that do not share cache lines |
//! | [`thread`] | yielding, sleeping, starting |
//! | [`time`] | moments |

#![deny(unsafe_code)]

// Page numbers are 64 bits wide and index arrays; words of 64 bits are loaded and stored at once.
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
pub mod shard;
#[cfg(all(feature = "simulated", not(loom)))]
pub mod simulated;
pub mod thread;
#[cfg(not(loom))]
pub mod time;
pub mod wiped;

/// Counted pointers to what every operation shares: those of `std`, but for the test that counts changes of the counts.
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

/// Locks `mutex`; a panic of another holder does not poison it.
///
/// Every structure that Pagewell keeps behind a mutex is consistent whenever user code could unwind, so a poisoned mutex
/// carries no information. (Backends and hooks are called with no lock held but those of a file's size and its writeback, and by a
/// thread that keeps the cache quiet that of the rounds; the data that these guard is consistent before every call.)
#[cfg_attr(pagewell_counted, track_caller)]
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    note_lock();
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Locks `mutex`, as [`lock`], if no other thread has it.
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

/// Locks `lock` for reading; a panic of another holder does not poison it, as for [`lock`].
#[cfg_attr(pagewell_counted, track_caller)]
pub fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    note_lock();
    lock.read()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Locks `lock` for writing; a panic of another holder does not poison it, as for [`lock`].
#[cfg_attr(pagewell_counted, track_caller)]
pub fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    note_lock();
    lock.write()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Notes that the caller's caller takes a lock, in the test that counts that.
#[cfg_attr(pagewell_counted, track_caller)]
#[inline(always)]
fn note_lock() {
    #[cfg(all(pagewell_counted, not(loom)))]
    counted::note(counted::Kind::Lock);
}
