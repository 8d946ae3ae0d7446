//! Public handles and calls: [`handles::Spaces`] and [`handles::Space`].
//!
//! - Owns: the handles, and the documentation of each call. Checks arguments.
//! - Promises: as the documentation of the public types states.

mod access;
mod areas;
#[cfg(not(loom))]
pub(crate) mod cache;
pub(crate) mod handles;
mod motion;
mod verify;
