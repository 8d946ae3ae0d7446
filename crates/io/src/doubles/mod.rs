//! Test doubles of backends, which fail as storage does.
//!
//! - Owns: calls that fail, fall short or block on request (`fault`); a device that loses unsynced
//!   data at a loss of power (`volatile`); seeded random numbers (`rng`).
//! - Calls: `backend`, and from `file` the direct transfer of partial blocks.
//! - Promises: the contract of [`Backend`](crate::Backend), except for faults that a test requests.
//!   A seed determines all random choices.

mod fault;
mod rng;
mod volatile;

pub use self::fault::{Fault, FaultBackend, Operation};
#[cfg(feature = "sim")]
pub(crate) use self::rng::Rng;
pub use self::volatile::{SectorWrites, VolatileDevice, VolatileFile};
