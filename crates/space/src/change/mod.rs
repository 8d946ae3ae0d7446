//! Changes of areas: mapping, unmapping, protecting, moving, policies ([`map`]), mapping of files
//! ([`map_file`]); forks ([`fork`]).
//!
//! - Owns: these operations, and their options and results ([`options`]).
//! - May call: `mm` and all below it but `motion`.
//! - Promises: a change takes effect entirely or not at all; a fork is one point in time.
//! - Locks: structure, for writing; then a stop of the writers, without waits or allocations.

pub(crate) mod fork;
pub(crate) mod map;
pub(crate) mod map_file;
pub(crate) mod options;
