//! Numbers of processes, and values with one instance in each process.
//!
//! A lock that another thread of the parent held at a fork is never released in the child, and a
//! value that the other thread was changing stays inconsistent there.

#[cfg(not(loom))]
mod imp {
    use std::ptr;
    use std::sync::atomic::AtomicPtr;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use pagewell_sync::atomic::Ordering;
    use pagewell_sync::raced::Raced;
    use pagewell_sync::wiped::{WipedOnFork, Word};

    /// Number of this process, or 0 before `this` assigns it. In a new child of `fork`, the system
    /// zeros it. `None` if the system cannot do that: process ids are then used instead.
    static NUMBER: Raced<Option<WipedOnFork>> = Raced::new();

    /// Last assigned number. A child inherits it, so it never assigns a number of its ancestors.
    static LAST: Word = Word::new(0);

    const FIRST: u64 = 1;

    /// Returns the number of this process, which differs from those of its ancestors.
    pub(crate) fn this() -> u64 {
        let Some(number) = NUMBER.get_or_make(WipedOnFork::new) else {
            return std::process::id().into();
        };
        let word = number.word();
        // ORDERING: Relaxed, here and below; it orders no other data, and the swap below decides.
        let number = word.load(Ordering::Relaxed);
        if number != 0 {
            return number;
        }
        // Racing threads may propose different numbers, so `is_first` may be `false` even in the
        // first process. `LAST` is at least as large as each number before the number is used, so a
        // child does not get it.
        // ORDERING: Relaxed, as above; the same for the store.
        let new = LAST.load(Ordering::Relaxed) + 1;
        LAST.fetch_max(new, Ordering::Relaxed);
        // ORDERING: Release, after the store to `LAST`: a child that inherits a handle with this
        // number also inherits a `LAST` that is at least as large.
        match word.compare_exchange(0, new, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => new,
            Err(others) => others,
        }
    }

    /// Returns `true` only if no ancestor has created handles. May be `false` in the first process.
    #[inline(always)]
    pub(crate) fn is_first() -> bool {
        match NUMBER.get() {
            // ORDERING: Relaxed, as in `this`.
            Some(Some(number)) => number.word().load(Ordering::Relaxed) == FIRST,
            _ => false,
        }
    }

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

    pub(crate) fn this() -> u64 {
        1
    }

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
