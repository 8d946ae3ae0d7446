//! Test doubles of backends, which fail as storage does.
//!
//! Except for injected faults, they keep the contract of [`Backend`](crate::Backend).

mod fault;
mod rng;
mod volatile;

pub use self::fault::{Fault, FaultBackend, Operation};
#[cfg(feature = "sim")]
pub(crate) use self::rng::Rng;
pub use self::volatile::{SectorWrites, VolatileDevice, VolatileFile};
