//! A cell whose exclusive use its caller guarantees; in the models it is loom's, which checks that.
//!
//! [`Life`]: that a value is not used any more when it ends.

#[cfg(loom)]
pub(crate) use loom::cell::UnsafeCell;

#[cfg(not(loom))]
pub(crate) use plain::UnsafeCell;

/// The life of a value that its users keep by a protocol of their own, or by shares. Models check that each use comes before the end; elsewhere it is
/// nothing.
#[derive(Debug)]
pub struct Life {
    #[cfg(loom)]
    cell: UnsafeCell<()>,
}

// SAFETY: nothing is in the cell; that its uses and its end are ordered is what loom checks.
#[cfg(loom)]
#[allow(unsafe_code)]
unsafe impl Sync for Life {}

impl Life {
    /// It begins.
    #[inline(always)]
    #[allow(clippy::new_without_default)] // Nothing is gained by one.
    #[must_use]
    pub fn new() -> Self {
        Self {
            #[cfg(loom)]
            cell: UnsafeCell::new(()),
        }
    }

    /// The value is used.
    #[inline(always)]
    pub fn used(&self) {
        #[cfg(loom)]
        self.cell.with(|_| ());
    }

    /// A share is about to be dropped of what has a life: what its holder did comes before the end. (The count of an `Arc` says so, but models do
    /// not see that.)
    #[inline(always)]
    pub fn share_goes() {
        // ORDERING: AcqRel, as the count of an `Arc` and the fence after its last share.
        #[cfg(loom)]
        NR_GONE.fetch_add(1, crate::atomic::Ordering::AcqRel);
    }

    /// The value ends: every use has come before.
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
    /// How many shares have gone, of whatever: one count for all of a run.
    static ref NR_GONE: loom::sync::atomic::AtomicUsize = loom::sync::atomic::AtomicUsize::new(0);
}

#[cfg(not(loom))]
mod plain {
    #![allow(unsafe_code)] // The same interface as loom's.

    /// `std`'s cell with loom's interface.
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    /// The right to use the value, which the caller asserts by `deref`.
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
        /// # Safety
        ///
        /// (A) The cell outlives the reference, and nobody else uses its value while the reference lives.
        #[allow(clippy::mut_from_ref)] // As loom's.
        #[inline]
        pub(crate) unsafe fn deref(&self) -> &mut T {
            // SAFETY: (A); the pointer is that of a cell.
            unsafe { &mut *self.0 }
        }
    }
}
