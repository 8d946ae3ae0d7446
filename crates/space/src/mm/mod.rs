//! State of one space ([`space::Mm`]; Linux: `mm_struct`), and of all spaces of a pool
//! ([`shared::Shared`]).
//!
//! - Owns: only the composition of other modules' values: tables, areas and noted files of a space;
//!   supply and writers of a pool.
//! - May call: all modules below it except `motion`.
//! - Promises: a space that is torn down leaves no entry and no link.
//! - Locks: owns the structure lock. This module and those above acquire it; modules below get it,
//!   or a value under it, as an argument.

pub(crate) mod shared;
pub(crate) mod space;
