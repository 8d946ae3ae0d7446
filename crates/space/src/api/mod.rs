//! Public handles and calls: [`handles::Spaces`] and [`handles::Space`].
//!
//! - Owns: the handles, and the documentation of each call. Checks arguments.
//! - May call: all modules.
//! - Promises: as the documentation of the public types states. All methods take `&self`, and may
//!   be called by any thread.

mod access;
mod areas;
#[cfg(not(loom))]
pub(crate) mod cache;
pub(crate) mod handles;
mod motion;
mod verify;
