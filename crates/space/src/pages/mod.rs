//! Room.

pub(crate) mod family;
pub(crate) mod links;
pub(crate) mod owner;
pub(crate) mod record;
mod tree;
