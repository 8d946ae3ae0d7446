//! The reference count of a frame: atomic operations on the reference word, in two schemes.
//!
//! - Owns: the protocol of references ([`refcount`]), the contract of a scheme (`scheme`), the
//!   schemes `lock_bit` and `cas_loop` (the baseline).
//! - Guarantees: a page has either one owner or references, never both ((A) to (D) of
//!   [`RefScheme`]).

mod cas_loop;
mod lock_bit;
pub mod refcount;
mod scheme;

pub(crate) use self::refcount::{LockBit, RefCount, RefScheme, TryGet};
