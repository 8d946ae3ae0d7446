//! State of a space ([`space::Mm`]; Linux: `mm_struct`) and of all in a pool ([`shared::Shared`]).
//!
//! - Owns: only the composition: tables, areas, noted files; supply and writers.
//! - May call: all modules below but `motion`.
//! - Promises: a space that is torn down leaves no entry and no link.
//! - Locks: structure, from here on.

pub(crate) mod shared;
pub(crate) mod space;
