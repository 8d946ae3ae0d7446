//! Room.

pub(crate) mod area;
pub(crate) mod cut;
pub(crate) mod file;
pub(crate) mod policy;
