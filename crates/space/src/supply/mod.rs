//! Room.

pub(crate) mod frames;
pub(crate) mod raw;
pub(crate) mod source;
mod stock;
pub(crate) mod view;
pub(crate) mod writers;
