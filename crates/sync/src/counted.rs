//! Atomics, locks and reference-counted pointers that record accesses to possibly shared memory,
//! for the one test that counts them, built with `--cfg pagewell_counted`. Not recorded: loads, and
//! accesses to page bytes. Recorded:
//!
//! - each store and read-modify-write of an atomic, including a failed compare-and-swap;
//! - each `SeqCst` fence;
//! - each acquisition, but not release, by [`lock`](crate::lock) and the functions beside it;
//! - each change of the counts of an [`Arc`], except a drop of a [`Weak`], and each upgrade.

#![allow(unsafe_code)] // Counted pointers as addresses.

use std::cell::RefCell;
use std::fmt;
use std::ops::Deref;
use std::panic::Location;
use std::sync::atomic::Ordering;

/// Kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Store to an atomic.
    Store,
    /// Read-modify-write of an atomic.
    Update,
    /// `SeqCst` fence.
    Fence,
    /// Lock acquisition.
    Lock,
}

/// One recorded access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Note {
    /// Kind of the access.
    pub kind: Kind,
    /// Source file of the access, or the type whose reference count changed.
    pub site: &'static str,
    /// Line in the file; 0 for a reference count.
    pub line: u32,
}

thread_local! {
    static NOTES: RefCell<Option<Vec<Note>>> = const { RefCell::new(None) };
}

/// Runs `work`, and returns its result together with the accesses that this thread made in it.
pub fn noted<R>(work: impl FnOnce() -> R) -> (R, Vec<Note>) {
    NOTES.set(Some(Vec::new()));
    let result = work();
    (result, NOTES.take().unwrap_or_default())
}

fn note_at(kind: Kind, site: &'static str, line: u32) {
    let note = Note { kind, site, line };
    // A thread that destroys its thread-locals records nothing.
    let _ = NOTES.try_with(|notes| {
        if let Ok(mut notes) = notes.try_borrow_mut()
            && let Some(notes) = &mut *notes
        {
            notes.push(note);
        }
    });
}

#[track_caller]
pub(crate) fn note(kind: Kind) {
    let place = Location::caller();
    note_at(kind, place.file(), place.line());
}

/// `std`'s fence, recorded if `order` is `SeqCst`.
#[track_caller]
pub fn fence(order: Ordering) {
    if order == Ordering::SeqCst {
        note(Kind::Fence);
    }
    std::sync::atomic::fence(order);
}

macro_rules! atomic {
    ($name:ident, $value:ty, [$($change:ident),*]) => {
        /// `std`'s atomic, with stores and read-modify-writes recorded.
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $name(std::sync::atomic::$name);

        #[allow(missing_docs)] // As those of `std`.
        impl $name {
            pub const fn new(value: $value) -> Self {
                Self(std::sync::atomic::$name::new(value))
            }

            #[inline]
            pub fn load(&self, order: Ordering) -> $value {
                self.0.load(order)
            }

            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                note(Kind::Store);
                self.0.store(value, order);
            }

            #[track_caller]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                note(Kind::Update);
                self.0.swap(value, order)
            }

            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                note(Kind::Update);
                self.0.compare_exchange(current, new, success, failure)
            }

            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                note(Kind::Update);
                self.0.compare_exchange_weak(current, new, success, failure)
            }

            #[track_caller]
            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                note(Kind::Update);
                self.0.fetch_update(set, fetch, change)
            }

            $(
                #[track_caller]
                pub fn $change(&self, value: $value, order: Ordering) -> $value {
                    note(Kind::Update);
                    self.0.$change(value, order)
                }
            )*
        }
    };
}

atomic!(AtomicBool, bool, [fetch_and, fetch_or]);
atomic!(
    AtomicU32,
    u32,
    [
        fetch_add, fetch_sub, fetch_and, fetch_or, fetch_max, fetch_min
    ]
);
atomic!(
    AtomicU64,
    u64,
    [
        fetch_add, fetch_sub, fetch_and, fetch_or, fetch_max, fetch_min
    ]
);
atomic!(
    AtomicUsize,
    usize,
    [
        fetch_add, fetch_sub, fetch_and, fetch_or, fetch_max, fetch_min
    ]
);

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
