//! Backends for tests, which go wrong as storage does.
//!
//! - Owns: calls that fail, fall short or wait at will (`fault`); a device that forgets unsynced data at a loss of power
//!   (`volatile`); random decisions that a seed repeats (`rng`).
//! - Calls: `backend`; of `file` how what is no whole block is transferred directly.
//! - Promises: the contract of [`Backend`](crate::Backend), except the faults that a test asks for. A seed determines all
//!   random choices.

mod fault;
mod rng;
mod volatile;

pub use self::fault::{Fault, FaultBackend, Operation};
#[cfg(feature = "sim")]
pub(crate) use self::rng::Rng;
pub use self::volatile::{SectorWrites, VolatileDevice, VolatileFile};
