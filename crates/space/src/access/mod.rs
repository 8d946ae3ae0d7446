//! Room.

pub(crate) mod age;
mod fault;
pub(crate) mod files;
pub(crate) mod optimistic;
pub(crate) mod pin;
pub(crate) mod read;
pub(crate) mod write;
