//! The promises that every storage makes to the cache above it.
//!
//! - Owns: the [`Backend`] trait, its contract, and the answers that all implementations share (`contract`).
//! - Calls: nothing of this crate.
//! - Promises: the cache relies on the contract's table, and on nothing else.

mod contract;

pub use self::contract::{Backend, FileId};
pub(crate) use self::contract::{gather, read_only, scatter, too_large, total_len};
