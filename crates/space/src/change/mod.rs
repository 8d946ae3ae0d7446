//! Changes of areas ([`map`]), forks ([`fork`]), migrations ([`migrate`], [`find`]).
//!
//! - May call: `mm` and all modules below it.
//! - Promises: a change takes effect entirely or not at all; a fork is one point in time. A
//!   migration may be partial: it reports the pages that were not moved.
//! - Locks: the structure lock: migrations for reading, for one batch at a time, other changes for
//!   writing. While a change or fork has stopped the writers, it neither waits nor allocates.

pub(crate) mod find;
pub(crate) mod fork;
mod map;
pub(crate) mod migrate;
