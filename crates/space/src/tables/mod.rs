//! Room.

pub(crate) mod table;
