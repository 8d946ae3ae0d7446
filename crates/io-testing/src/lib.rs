//! Test doubles of backends, which fail as storage does.
//!
//! [`FaultBackend`] injects faults; [`VolatileDevice`] loses power. Except for injected faults,
//! they keep the contract of [`Backend`](pagewell_io::Backend).

#![forbid(unsafe_code)]

mod fault;
mod volatile;

pub use self::fault::{Fault, FaultBackend, Operation};
pub use self::volatile::{SectorWrites, VolatileDevice, VolatileFile};
