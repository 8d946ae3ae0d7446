//! Room.

pub(crate) mod family;
pub(crate) mod frames;
pub(crate) mod tree;
