//! Backends for tests, which go wrong as storage does.
//!
//! - Owns: calls that fail, fall short or wait at will (`fault`); a device that forgets at a loss of power what was not
//!   synced (`volatile`).
//! - Calls: `backend`.
//! - Promises: the contract of [`Backend`](crate::Backend), but for the faults that a test asks for. What happens at random
//!   follows from a seed.

mod fault;
mod volatile;

pub use self::fault::{Fault, FaultBackend, Operation};
pub use self::volatile::{SectorWrites, VolatileDevice, VolatileFile};
