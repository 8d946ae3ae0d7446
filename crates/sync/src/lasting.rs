//! Memory that is never freed, except in models.

/// Reference to a value that is never freed. In a model, the last reference frees it.
#[cfg(not(loom))]
pub type Lasting<T> = &'static T;
#[cfg(loom)]
pub type Lasting<T> = std::sync::Arc<T>;

/// Moves a value to memory that is never freed.
pub fn lasting<T>(value: T) -> Lasting<T> {
    #[cfg(not(loom))]
    return Box::leak(Box::new(value));
    #[cfg(loom)]
    return std::sync::Arc::new(value);
}

/// Like [`lasting`], for the elements of an array.
pub fn lasting_slice<T>(values: Vec<T>) -> Lasting<[T]> {
    #[cfg(not(loom))]
    return values.leak();
    #[cfg(loom)]
    return values.into();
}
