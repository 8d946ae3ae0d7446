//! State of one space ([`space::Mm`]), and of all spaces of a pool ([`space::Shared`]); their
//! public handles; and a consistency check ([`verify`]).
//!
//! - May call: all modules below it; of `motion` only compaction.
//! - Promises: a space that is torn down leaves no entry and no link.
//! - Locks: modules below receive the structure lock, or a value that it guards, as an argument.

pub(crate) mod space;
mod verify;
