//! What every storage promises to the cache above it.
//!
//! - Owns: the [`Backend`] trait, its contract, and what all implementations answer alike (`contract`).
//! - Calls: nothing of this crate.
//! - Promises: the contract's table is all that the cache relies on.

mod contract;

pub use self::contract::{Backend, FileId};
pub(crate) use self::contract::{gather, read_only, scatter, too_large, total_len};
