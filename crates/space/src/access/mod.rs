//! Room.

pub(crate) mod age;
pub(crate) mod files;
pub(crate) mod pin;
pub(crate) mod read;
pub(crate) mod write;
