//! The reference count of a frame: the atomic shell around the reference word, in two schemes.
//!
//! - Owns: the protocol of taking, giving up and freezing references ([`refcount`]).
//! - Calls: `words`.
//! - Promises: a page has one owner at a time, and none while anybody holds a reference (duties A to D of [`RefScheme`]).

pub mod refcount;

pub(crate) use self::refcount::{LockBit, RefCount, RefScheme, TryGet};
