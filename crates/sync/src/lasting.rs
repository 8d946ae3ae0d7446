//! Memory that is never freed, except at the end of a model's execution.

#[cfg(not(loom))]
mod imp {
    pub type Lasting<T> = &'static T;

    pub fn lasting<T>(value: T) -> Lasting<T> {
        Box::leak(Box::new(value))
    }

    pub fn lasting_slice<T>(values: Vec<T>) -> Lasting<[T]> {
        values.leak()
    }
}

#[cfg(loom)]
mod imp {
    use std::sync::Arc;

    pub type Lasting<T> = Arc<T>;

    pub fn lasting<T>(value: T) -> Lasting<T> {
        Arc::new(value)
    }

    pub fn lasting_slice<T>(values: Vec<T>) -> Lasting<[T]> {
        values.into()
    }
}

/// Reference to a value that is never freed. In a model, the last reference frees it.
pub use imp::Lasting;
/// Moves a value to memory that is never freed.
pub use imp::lasting;
/// Like [`lasting`], for the elements of an array.
pub use imp::lasting_slice;
