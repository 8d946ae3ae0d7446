//! Configuration of a pool, NUMA nodes of the machine, memory from the system.
//!
//! Guarantees: a validated plan can be built. The range is readable while its `Memory` lives.

mod config;
pub mod numa;
mod os;

pub(crate) use self::config::NodePlan;
pub use self::config::{Nodes, PoolConfig, PoolError};
pub(crate) use self::os::Memory;
pub use pagewell_sync::region::HugePages;
