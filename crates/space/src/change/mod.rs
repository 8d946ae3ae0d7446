//! Room.

pub(crate) mod fork;
pub(crate) mod map;
pub(crate) mod map_file;
pub(crate) mod options;
