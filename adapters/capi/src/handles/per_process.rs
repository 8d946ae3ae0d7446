//! Values with one instance in each process.
//!
//! A lock that another thread of the parent held at a fork is never released in the child, and a
//! value that the other thread was changing stays inconsistent there.

#[cfg(not(loom))]
pub(crate) use pagewell_sync::process::is_first;
pub(crate) use pagewell_sync::process::number as this;

#[cfg(not(loom))]
mod imp {
    use std::ptr;
    use std::sync::atomic::AtomicPtr;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use pagewell_sync::atomic::Ordering;

    use super::this;

    pub(crate) struct PerProcess<T>(AtomicPtr<Own<T>>);

    /// Value of one process. It is never freed: other threads may use it until the process ends.
    struct Own<T> {
        process: u64,
        value: Mutex<T>,
        /// Value of the parent, so that leak checkers find it.
        _parents: *mut Own<T>,
    }

    // SAFETY: `T` is accessed only under the mutex, by one thread at a time.
    unsafe impl<T: Send> Sync for PerProcess<T> {}

    impl<T> PerProcess<T> {
        pub(crate) const fn new() -> Self {
            Self(AtomicPtr::new(ptr::null_mut()))
        }

        /// Locks the value of this process. The first lock creates the value by `make`.
        pub(crate) fn lock(&self, make: impl FnOnce() -> T) -> MutexGuard<'_, T> {
            let process = this();
            // ORDERING: Acquire; pairs with the Release below, which follows the initialization.
            let found = self.0.load(Ordering::Acquire);
            // SAFETY: null, or the address of a value that is never freed.
            let own = match unsafe { found.as_ref() } {
                Some(own) if own.process == process => own,
                _ => self.publish(found, process, make()),
            };
            own.value.lock().unwrap_or_else(PoisonError::into_inner)
        }

        #[cold]
        fn publish(&self, parents: *mut Own<T>, process: u64, value: T) -> &Own<T> {
            let new = Box::into_raw(Box::new(Own {
                process,
                value: Mutex::new(value),
                _parents: parents,
            }));
            // ORDERING: Release, to publish the value; Acquire, to use the other thread's.
            let published =
                self.0
                    .compare_exchange(parents, new, Ordering::Release, Ordering::Acquire);
            let own = match published {
                Ok(_) => new,
                Err(others) => {
                    // SAFETY: `new` comes from `into_raw` above, and no other thread has seen it.
                    drop(unsafe { Box::from_raw(new) });
                    others
                }
            };
            // SAFETY: not null, and never freed.
            unsafe { &*own }
        }
    }
}

#[cfg(loom)]
mod imp {
    use loom::sync::{Mutex, MutexGuard};

    /// Value under a lock. A model has only one process.
    pub(crate) struct PerProcess<T>(Mutex<T>);

    impl<T: Default> PerProcess<T> {
        pub(crate) fn new() -> Self {
            Self(Mutex::new(T::default()))
        }
    }

    impl<T> PerProcess<T> {
        pub(crate) fn lock(&self, _make: impl FnOnce() -> T) -> MutexGuard<'_, T> {
            self.0
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }
}

pub(crate) use self::imp::*;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_first_process_keeps_its_number_and_its_value() {
        let value = PerProcess::new();
        *value.lock(|| 1) += 1;
        assert_eq!(*value.lock(|| 7), 2);
        assert_eq!(this(), this());
    }
}
