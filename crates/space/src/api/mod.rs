//! Room.

pub(crate) mod access;
#[cfg(not(loom))]
pub(crate) mod cache;
#[cfg(not(loom))]
pub(crate) mod rmap;
pub(crate) mod verify;
