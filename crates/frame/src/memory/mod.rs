//! Configuration of a pool, NUMA nodes of the machine, memory from the system.
//!
//! - Owns: the configuration and its validation (`config`, `error`), the machine's NUMA nodes
//!   ([`numa`]), the reserved address range for all frames (`os`).
//! - Guarantees: a validated plan can be built. The range is readable while its `Memory` lives.

mod config;
mod error;
pub mod numa;
mod os;

pub(crate) use self::config::NodePlan;
pub use self::config::{HugePages, Nodes, PoolConfig};
pub use self::error::PoolError;
pub(crate) use self::os::Memory;
