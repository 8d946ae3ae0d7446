//! What users hold and call: [`handles::Spaces`] and [`handles::Space`].
//!
//! Owns: the handles, and the documentation of each call; arguments are checked, and the call goes to the room that does it.
//!
//! May call: all rooms.
//!
//! Promises: what the documentation of the crate's types says. All methods take `&self`, from any number of threads.

mod access;
mod areas;
#[cfg(not(loom))]
pub(crate) mod cache;
pub(crate) mod handles;
mod motion;
mod verify;
