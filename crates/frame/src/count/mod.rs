//! The reference count of a frame: atomic operations on the reference word, in two schemes and a
//! variant of one of them.
//!
//! Guarantees: a page has either one owner or references, never both ((A) to (D) of [`RefScheme`]).

mod cas_loop;
mod lock_bit;
pub mod refcount;
mod scheme;

pub(crate) use self::refcount::{RefCount, RefScheme, Scheme, TryGet};
