//! A cell whose exclusive use its caller guarantees; in the models it is loom's, which checks that.

#[cfg(loom)]
pub(crate) use loom::cell::UnsafeCell;

#[cfg(not(loom))]
pub(crate) use plain::UnsafeCell;

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
