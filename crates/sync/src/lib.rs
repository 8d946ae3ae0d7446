//! Synchronization primitives of Pagewell.
//!
//! Crates above this one import from here the atomics that models explore. Their other atomics are
//! `std`'s, are relaxed, and order no other memory: the notes of `pagewell-policy` (which depends
//! on no crate), ids of files, and counters and flags of backends.

#![deny(unsafe_code)]

#[cfg(not(target_os = "linux"))]
compile_error!("Pagewell runs on Linux only");
// Page numbers, by which arrays are indexed, and atomic words are 64 bits wide.
#[cfg(not(target_pointer_width = "64"))]
compile_error!("Pagewell needs a 64-bit target");

use std::sync::{PoisonError, TryLockError};

pub mod asymmetric;
pub mod atomic;
pub mod bytes;
pub mod cell;
pub mod lasting;
pub mod ledger;
#[cfg(loom)]
mod modelled;
pub mod parking;
pub mod per_thread;
pub mod prefetch;
pub mod process;
pub mod raced;
pub mod region;
pub mod shard;
mod signals;
pub mod system;
pub mod thread;
pub mod time;

#[cfg(loom)]
pub use loom::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(loom)]
pub use modelled::{Condvar, WaitTimeoutResult};

/// Mutex whose orders of acquisition models do not explore, and whose memory ordering they do not
/// see: for times, counts and numbers of attempts. A holder acquires no other lock, and uses no
/// atomic of a model.
#[cfg(not(loom))]
pub use self::{Mutex as RecordMutex, MutexGuard as RecordGuard, lock as lock_record};
#[cfg(loom)]
pub use modelled::{RecordGuard, RecordMutex, lock_record};
#[cfg(all(feature = "simulated", not(loom)))]
pub use pagewell_sync_testing::{
    Arc, Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
    Weak,
};
#[cfg(not(all(feature = "simulated", not(loom))))]
pub use std::sync::{Arc, Weak};
#[cfg(not(any(feature = "simulated", loom)))]
pub use std::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Returns `real`, or `model` in a build for models, which explore only small sizes and few rounds.
#[must_use]
pub const fn scaled<T: Copy>(real: T, model: T) -> T {
    if cfg!(loom) { model } else { real }
}

/// Locks `mutex`, ignoring poison: the data is consistent at each call that can unwind. Backends
/// and callbacks run with at most three locks held: a file's size lock, its writeback lock and, in
/// a thread that quiesces the cache, the quiet lock.
#[cfg_attr(feature = "simulated", track_caller)]
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks `mutex` like [`lock`]. Returns `None` if it is locked.
#[cfg_attr(feature = "simulated", track_caller)]
pub fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Locks `lock` for reading, ignoring poison like [`lock`].
#[cfg_attr(feature = "simulated", track_caller)]
pub fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// Locks `lock` for writing, ignoring poison like [`lock`].
#[cfg_attr(feature = "simulated", track_caller)]
pub fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
