//! Test doubles of backends, which fail as storage does.
//!
//! They keep the contract of [`Backend`](crate::Backend), but for faults. Choices are seeded.

mod fault;
mod rng;
mod volatile;

pub use self::fault::{Fault, FaultBackend, Operation};
#[cfg(feature = "sim")]
pub(crate) use self::rng::Rng;
pub use self::volatile::{SectorWrites, VolatileDevice, VolatileFile};
