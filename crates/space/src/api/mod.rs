//! Room.

mod access;
mod areas;
#[cfg(not(loom))]
pub(crate) mod cache;
pub(crate) mod handles;
mod motion;
#[cfg(not(loom))]
pub(crate) mod rmap;
mod verify;
