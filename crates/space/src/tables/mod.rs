//! Room.

pub(crate) mod of_space;
pub(crate) mod table;
