//! A value that is made once, and for which nobody waits.

#![allow(unsafe_code)] // A box behind an atomic pointer.

use std::ptr;
// Std's, in models and simulations too: these values are the process's, not an execution's.
use std::sync::atomic::{AtomicPtr, Ordering};

/// A value that whoever comes first makes.
///
/// Several threads may make one at the same moment; one value stays, the others are dropped. So nobody waits for another thread, as
/// with [`OnceLock`](std::sync::OnceLock): a child made by `fork` while another thread of its parent was making the value would
/// wait for ever, since that thread is not in the child.
#[derive(Debug)]
pub struct Raced<T>(AtomicPtr<T>);

// SAFETY: it owns a T, which it gives out shared, and drops on any thread; `OnceLock` asks the same.
unsafe impl<T: Send> Send for Raced<T> {}
// SAFETY: as above; a value comes in through a shared reference (so Send) and is seen through them (so Sync).
unsafe impl<T: Send + Sync> Sync for Raced<T> {}

impl<T> Raced<T> {
    /// No value yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// The value, if it has been made.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // ORDERING: Acquire, with the Release in `get_or_make`: the value was written before its address.
        let value = self.0.load(Ordering::Acquire);
        // SAFETY: null, or the box that `get_or_make` leaked, which is neither changed nor freed while `self` is borrowed.
        unsafe { value.as_ref() }
    }

    /// The value; if there is none yet, the one that `make` returns, unless another thread is faster.
    #[inline]
    pub fn get_or_make(&self, make: impl FnOnce() -> T) -> &T {
        match self.get() {
            Some(value) => value,
            None => self.publish(make()),
        }
    }

    #[cold]
    fn publish(&self, value: T) -> &T {
        let new = Box::into_raw(Box::new(value));
        // ORDERING: Release on success, so that who sees the address sees the value. Acquire on failure: the value of the
        // thread that was faster is what the caller gets.
        let published =
            self.0
                .compare_exchange(ptr::null_mut(), new, Ordering::Release, Ordering::Acquire);
        let value = match published {
            Ok(_) => new,
            Err(other) => {
                // SAFETY: from `into_raw` above, and nobody else has seen it.
                drop(unsafe { Box::from_raw(new) });
                other
            }
        };
        // SAFETY: not null: ours, or the other's that the exchange has found; it stays until `self` is dropped.
        unsafe { &*value }
    }
}

impl<T> Default for Raced<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for Raced<T> {
    fn drop(&mut self) {
        let value = *self.0.get_mut();
        if !value.is_null() {
            // SAFETY: the box that `publish` leaked; nobody borrows from `self`.
            drop(unsafe { Box::from_raw(value) });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::{Arc, Barrier};

    use super::*;

    #[test]
    fn one_value_stays_and_all_are_dropped() {
        const THREADS: usize = 4;
        for _ in 0..200 {
            let made = AtomicUsize::new(0);
            let counted = Arc::new(());
            let raced = Raced::new();
            let start = Barrier::new(THREADS);
            let seen: Vec<usize> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..THREADS)
                    .map(|_| {
                        scope.spawn(|| {
                            start.wait();
                            let value = raced.get_or_make(|| {
                                let number = made.fetch_add(1, Ordering::Relaxed);
                                (number, Arc::clone(&counted))
                            });
                            value.0
                        })
                    })
                    .collect();
                threads.into_iter().map(|t| t.join().unwrap()).collect()
            });
            assert!(seen.iter().all(|number| *number == seen[0]), "{seen:?}");
            assert_eq!(raced.get().map(|value| value.0), Some(seen[0]));
            // Ours, and that of the one value that has stayed.
            assert_eq!(Arc::strong_count(&counted), 2);
            drop(raced);
            assert_eq!(Arc::strong_count(&counted), 1);
        }
    }

    #[test]
    fn one_that_is_making_it_stops_nobody() {
        let raced = Raced::new();
        let value = raced.get_or_make(|| {
            // In the middle of it: another one, as a child of `fork` would.
            assert_eq!(*raced.get_or_make(|| 2), 2);
            1
        });
        assert_eq!(*value, 2);
    }
}
