//! Room.

pub(crate) mod claim;
pub(crate) mod counts;
pub(crate) mod cow;
pub(crate) mod directory;
pub(crate) mod geometry;
pub(crate) mod pmd;
pub(crate) mod pte;
