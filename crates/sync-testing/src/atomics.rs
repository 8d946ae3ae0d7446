//! Atomics of `std` at which another thread may be scheduled, and whose changes are recorded.

use std::sync::atomic::Ordering;

use crate::notes::{Kind, note_and_point};
use crate::schedule::point;

/// `std`'s fence, preceded by a scheduling [`point`], and recorded if `order` is `SeqCst`.
#[track_caller]
pub fn fence(order: Ordering) {
    match order {
        Ordering::SeqCst => note_and_point(Kind::Fence),
        _ => point(),
    }
    std::sync::atomic::fence(order);
}

macro_rules! atomic {
    ($name:ident, $value:ty, [$($change:ident),*]) => {
        /// `std`'s atomic. A scheduling [`point`] precedes each operation; changes are recorded.
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
                point();
                self.0.load(order)
            }

            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                note_and_point(Kind::Store);
                self.0.store(value, order);
            }

            #[track_caller]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                note_and_point(Kind::Update);
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
                note_and_point(Kind::Update);
                self.0.compare_exchange(current, new, success, failure)
            }

            /// Never fails spuriously: the seed would not determine that.
            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }

            #[track_caller]
            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                mut change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut now = self.load(fetch);
                while let Some(new) = change(now) {
                    match self.compare_exchange(now, new, set, fetch) {
                        Ok(was) => return Ok(was),
                        Err(was) => now = was,
                    }
                }
                Err(now)
            }

            $(
                #[track_caller]
                pub fn $change(&self, value: $value, order: Ordering) -> $value {
                    note_and_point(Kind::Update);
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
