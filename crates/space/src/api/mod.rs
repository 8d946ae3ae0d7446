//! Public handles and calls: [`handles::Spaces`] and [`handles::Space`].
//!
//! - Owns: the handles, and the documentation of each call. Checks arguments.
//! - May call: all modules.
//! - Promises: the documentation of the crate's types. All methods take `&self`, in any thread.

mod access;
mod areas;
#[cfg(not(loom))]
pub(crate) mod cache;
pub(crate) mod handles;
mod motion;
mod verify;
