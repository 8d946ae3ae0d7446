//! Reference-counted pointers that record changes of their counts.

#![allow(unsafe_code)] // Counted pointers as addresses.

use std::fmt;
use std::ops::Deref;

use crate::notes::{Kind, note_at};

/// `std`'s `Arc` for sized values, with changes of its counts recorded.
pub struct Arc<T>(std::sync::Arc<T>);

#[allow(missing_docs)] // As those of `std`.
impl<T> Arc<T> {
    pub fn new(value: T) -> Self {
        Self(std::sync::Arc::new(value))
    }

    pub fn ptr_eq(this: &Self, other: &Self) -> bool {
        std::sync::Arc::ptr_eq(&this.0, &other.0)
    }

    pub fn strong_count(this: &Self) -> usize {
        std::sync::Arc::strong_count(&this.0)
    }

    pub fn as_ptr(this: &Self) -> *const T {
        std::sync::Arc::as_ptr(&this.0)
    }

    pub fn into_raw(this: Self) -> *const T {
        // SAFETY: the field is moved out, once.
        let inner = unsafe { std::ptr::read(&raw const this.0) };
        std::mem::forget(this);
        std::sync::Arc::into_raw(inner)
    }

    /// # Safety
    ///
    /// As for `Arc::from_raw` of `std`.
    pub unsafe fn from_raw(pointer: *const T) -> Self {
        // SAFETY: as the caller guarantees.
        Self(unsafe { std::sync::Arc::from_raw(pointer) })
    }

    pub fn downgrade(this: &Self) -> Weak<T> {
        note_count::<T>();
        Weak(std::sync::Arc::downgrade(&this.0))
    }
}

fn note_count<T>() {
    note_at(Kind::Update, std::any::type_name::<T>(), 0);
}

impl<T> Clone for Arc<T> {
    fn clone(&self) -> Self {
        note_count::<T>();
        Self(std::sync::Arc::clone(&self.0))
    }
}

impl<T> Drop for Arc<T> {
    fn drop(&mut self) {
        note_count::<T>();
    }
}

impl<T> Deref for Arc<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Default> Default for Arc<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: fmt::Debug> fmt::Debug for Arc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// `std`'s `Weak`, with changes of the counts recorded, except by a drop.
#[derive(Debug)]
pub struct Weak<T>(std::sync::Weak<T>);

#[allow(missing_docs)] // As those of `std`.
impl<T> Weak<T> {
    pub fn upgrade(&self) -> Option<Arc<T>> {
        note_count::<T>();
        self.0.upgrade().map(Arc)
    }

    pub fn strong_count(&self) -> usize {
        self.0.strong_count()
    }
}

impl<T> Clone for Weak<T> {
    fn clone(&self) -> Self {
        note_count::<T>();
        Self(self.0.clone())
    }
}
