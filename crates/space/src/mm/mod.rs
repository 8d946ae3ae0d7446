//! Room.

pub(crate) mod shared;
pub(crate) mod space;
