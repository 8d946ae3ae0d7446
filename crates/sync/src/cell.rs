//! `UnsafeCell` with loom's interface, so that models check its exclusive use; [`Life`].

#[cfg(loom)]
pub(crate) use loom::cell::UnsafeCell;

#[cfg(not(loom))]
pub(crate) use plain::UnsafeCell;

/// Lifetime of a value whose users keep it alive by a protocol of their own. Models check that each
/// use happens before the end of the lifetime. In other builds the functions do nothing.
#[derive(Debug)]
pub struct Life {
    #[cfg(loom)]
    cell: UnsafeCell<()>,
}

// SAFETY: the cell contains nothing; loom checks the order of its uses and its end.
#[cfg(loom)]
#[allow(unsafe_code)]
unsafe impl Sync for Life {}

impl Life {
    /// Begins the lifetime.
    #[inline(always)]
    #[allow(clippy::new_without_default)] // A default would gain nothing.
    #[must_use]
    pub fn new() -> Self {
        Self {
            #[cfg(loom)]
            cell: UnsafeCell::new(()),
        }
    }

    /// Records a use of the value.
    #[inline(always)]
    pub fn used(&self) {
        #[cfg(loom)]
        self.cell.with(|_| ());
    }

    /// Records that an owner drops its reference, so that its uses happen before the end of the
    /// lifetime. (The count of an `Arc` orders them too, but models do not see it.)
    #[inline(always)]
    pub fn share_goes() {
        // ORDERING: AcqRel, like the count of an `Arc` and the fence after its last decrement.
        #[cfg(loom)]
        NR_GONE.fetch_add(1, crate::atomic::Ordering::AcqRel);
    }

    /// Ends the lifetime. A model fails if a recorded use does not happen before this call.
    #[inline(always)]
    pub fn end(&mut self) {
        #[cfg(loom)]
        {
            Self::share_goes();
            self.cell.with_mut(|_| ());
        }
    }
}

#[cfg(loom)]
loom::lazy_static! {
    static ref NR_GONE: loom::sync::atomic::AtomicUsize = loom::sync::atomic::AtomicUsize::new(0);
}

#[cfg(not(loom))]
mod plain {
    #![allow(unsafe_code)] // The same interface as loom's.

    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    pub(crate) struct MutPtr<T>(*mut T);

    impl<T> UnsafeCell<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        #[inline]
        pub(crate) fn get_mut(&self) -> MutPtr<T> {
            MutPtr(self.0.get())
        }
    }

    impl<T> MutPtr<T> {
        /// Safety: (A) the cell outlives the reference, during which no other access occurs.
        #[allow(clippy::mut_from_ref)] // As loom's.
        #[inline]
        pub(crate) unsafe fn deref(&self) -> &mut T {
            // SAFETY: (A), and the pointer comes from `UnsafeCell::get_mut`.
            unsafe { &mut *self.0 }
        }
    }
}
