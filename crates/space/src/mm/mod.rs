//! State of one space ([`space::Mm`]), and of all spaces of a pool ([`shared::Shared`]).
//!
//! - May call: all modules below it except `motion`.
//! - Promises: a space that is torn down leaves no entry and no link.
//! - Locks: modules below receive the structure lock, or a value that it guards, as an argument.

pub(crate) mod shared;
pub(crate) mod space;
