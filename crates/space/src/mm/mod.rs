//! The state of a space ([`space::Mm`]; Linux has `mm_struct`), and of all spaces of a pool ([`shared::Shared`]).
//!
//! Owns: nothing but the parts, put together: tables, areas behind the structure lock, noted files; the supply and the writers.
//!
//! May call: all rooms below but `motion`.
//!
//! Promises: a space that is torn down leaves no entry and no link.
//!
//! Locks: structure, from here on.

pub(crate) mod shared;
pub(crate) mod space;
