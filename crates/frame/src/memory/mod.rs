//! The basis of a pool: its set-up, the nodes of the machine, and memory of the system.
//!
//! - Owns: the configuration and its validation (`config`, `error`), the machine's NUMA nodes ([`numa`]), the
//!   one reserved range of addresses behind all frames (`os`).
//! - Calls: `words`.
//! - Promises: a validated plan can be built. The range stays mapped, and readable at every frame, for as long as
//!   its `Memory` lives.

mod config;
mod error;
pub mod numa;
mod os;

pub(crate) use self::config::NodePlan;
pub use self::config::{HugePages, Nodes, PoolConfig};
pub use self::error::PoolError;
pub(crate) use self::os::Memory;
