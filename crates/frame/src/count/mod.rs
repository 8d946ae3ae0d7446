//! The reference count of a frame: the atomic shell around the reference word, in two schemes.
//!
//! - Owns: the protocol of taking, giving up and freezing references ([`refcount`]), what a scheme promises
//!   (`scheme`), and the two schemes (`lock_bit`, and the baseline `cas_loop`).
//! - Calls: `words`.
//! - Promises: a page has one owner at a time, and none while there is a reference (duties A to D of [`RefScheme`]).

mod cas_loop;
mod lock_bit;
pub mod refcount;
mod scheme;

pub(crate) use self::refcount::{LockBit, RefCount, RefScheme, TryGet};
