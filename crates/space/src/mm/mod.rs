//! Room.

pub(crate) mod mm;
pub(crate) mod room;
