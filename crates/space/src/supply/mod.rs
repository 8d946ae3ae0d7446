//! Room.

pub(crate) mod source;
pub(crate) mod stock;
pub(crate) mod view;
