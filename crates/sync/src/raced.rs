#![allow(unsafe_code)] // A box behind an atomic pointer.

use std::ptr;
// `std`'s atomics even in models and simulations: these values belong to the process.
use std::sync::atomic::{AtomicPtr, Ordering};

/// Value that the first thread to need it initializes. Of several concurrent initializations, one
/// value stays, and no thread waits. (A child forked during the initialization of a
/// [`OnceLock`](std::sync::OnceLock) would wait forever for a thread of its parent.)
#[derive(Debug)]
pub struct Raced<T>(AtomicPtr<T>);

// SAFETY: the cell owns a `T`, and may be dropped on any thread, as `OnceLock`.
unsafe impl<T: Send> Send for Raced<T> {}
// SAFETY: a value enters through a shared reference (Send) and is read through others (Sync).
unsafe impl<T: Send + Sync> Sync for Raced<T> {}

impl<T> Raced<T> {
    /// Creates an empty cell.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Returns the value if it is initialized.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // ORDERING: Acquire; pairs with the Release in `publish`, which follows the initialization.
        let value = self.0.load(Ordering::Acquire);
        // SAFETY: null, or the box that `publish` leaked, which stays while `self` is borrowed.
        unsafe { value.as_ref() }
    }

    /// Returns the value. If the cell is empty, publishes the result of `make`, which is dropped if
    /// another thread has published a value first.
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
        // ORDERING: Release on success, so that a thread that loads the address sees the value.
        // Acquire on failure, because the caller then reads the other thread's value.
        let published =
            self.0
                .compare_exchange(ptr::null_mut(), new, Ordering::Release, Ordering::Acquire);
        let value = match published {
            Ok(_) => new,
            Err(other) => {
                // SAFETY: `new` comes from `into_raw` above, and no other thread has seen it.
                drop(unsafe { Box::from_raw(new) });
                other
            }
        };
        // SAFETY: this thread's box or the published one, which stays until `self` is dropped.
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
            // SAFETY: `publish` leaked the box, and no borrow of `self` exists.
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
            // The value that stayed has the other reference.
            assert_eq!(Arc::strong_count(&counted), 2);
            drop(raced);
            assert_eq!(Arc::strong_count(&counted), 1);
        }
    }

    #[test]
    fn one_that_is_making_it_stops_nobody() {
        let raced = Raced::new();
        let value = raced.get_or_make(|| {
            // As in a child of `fork` during an initialization.
            assert_eq!(*raced.get_or_make(|| 2), 2);
            1
        });
        assert_eq!(*value, 2);
    }
}
