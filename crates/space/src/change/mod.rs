//! Changes of areas: mapping, unmapping, protecting, moving and policies ([`map`]), of files ([`map_file`]); and forks ([`fork`]).
//!
//! Owns: these operations, and what they are told and tell ([`options`]).
//!
//! May call: `mm` and all below it but `motion`.
//!
//! Promises: a change happens whole or not at all. A fork is one point in time.
//!
//! Locks: structure, for writing; then a visit of the writers, in which nothing is waited for or allocated.

pub(crate) mod fork;
pub(crate) mod map;
pub(crate) mod map_file;
pub(crate) mod options;
