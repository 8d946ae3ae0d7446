//! State of a space ([`space::Mm`]; Linux has `mm_struct`), and of all spaces of a pool
//! ([`shared::Shared`]).
//!
//! - Owns: only the composition: tables, areas under the structure lock, noted files; supply and
//!   writers.
//! - May call: all modules below but `motion`.
//! - Promises: a space that is torn down leaves no entry and no link.
//! - Locks: structure, from here on.

pub(crate) mod shared;
pub(crate) mod space;
