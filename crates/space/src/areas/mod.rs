//! Room.

pub(crate) mod area;
pub(crate) mod cut;
pub(crate) mod file;
pub(crate) mod maps;
pub(crate) mod noted;
pub(crate) mod policy;
pub(crate) mod set;
