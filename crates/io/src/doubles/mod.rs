//! Test doubles of backends, which fail as storage does.
//!
//! - Owns: faults on request (`fault`); a device that loses unsynced data (`volatile`). A seed
//!   determines all random choices.
//! - Calls: `backend`, and from `file` the direct transfer of partial blocks.
//! - Promises: the contract of [`Backend`](crate::Backend), except for faults that a test requests.

mod fault;
mod rng;
mod volatile;

pub use self::fault::{Fault, FaultBackend, Operation};
#[cfg(feature = "sim")]
pub(crate) use self::rng::Rng;
pub use self::volatile::{SectorWrites, VolatileDevice, VolatileFile};
