//! Test doubles of backends, which fail as storage does, and of an I/O engine.
//!
//! [`FaultBackend`] injects faults; [`VolatileDevice`] loses power. Except for injected faults,
//! they keep the contract of [`Backend`](pagewell_io::Backend). Feature `sim`: `SimEngine` performs
//! requests in an order and in parts that a seed determines.

#![deny(unsafe_code)]

mod fault;
#[cfg(feature = "sim")]
pub mod sim;
mod volatile;

pub use self::fault::{Fault, FaultBackend, Operation};
pub use self::volatile::{SectorWrites, VolatileDevice, VolatileFile};
