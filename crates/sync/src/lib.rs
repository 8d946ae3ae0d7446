//! The synchronisation primitives that the rest of Pagewell is built from.
//!
//! This is the one crate that names the atomics of `std` or of `loom`: everything above it is written
//! once and runs in both, so that the models explore the code that ships.
//!
//! | module | what |
//! |---|---|
//! | [`asymmetric`] | a full fence for a frequent and a rare side, of which the rare one pays |
//! | [`atomic`] | the atomic types and fences |
//! | [`bytes`] | memory that other threads may be writing, and the copy out of it |
//! | [`parking`] | waiting for a word to change |
//! | [`per_thread`] | a value a thread, which others can still reach |
//! | [`shard`] | the number of a thread; values that do not share cache lines |
//! | [`thread`] | yielding |

#![deny(unsafe_code)]

// Page numbers are 64 bits wide and index arrays; words of 64 bits are loaded and stored at once.
#[cfg(not(target_pointer_width = "64"))]
compile_error!("Pagewell needs a 64-bit target");

pub mod asymmetric;
pub mod atomic;
pub mod bytes;
mod cell;
pub mod parking;
pub mod per_thread;
pub mod shard;
pub mod thread;

#[cfg(loom)]
pub use loom::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(loom))]
pub use std::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Locks `mutex`; a panic of another holder does not poison it.
///
/// Every structure that Pagewell keeps behind a mutex is consistent whenever user code could unwind
/// (backends and hooks are called with no lock held, but for those of a file's size, of its writeback and of a round of the
/// thread that writes back, and what these guard is in step before every call), so a poisoned mutex carries no information.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Locks `lock` for reading; a panic of another holder does not poison it, as for [`lock`].
pub fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Locks `lock` for writing; a panic of another holder does not poison it, as for [`lock`].
pub fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
