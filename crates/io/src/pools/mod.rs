//! The I/O engine of a cache, and threads for calls that may block ([`Engines`]); calls that they
//! make for tasks ([`Errand`]).

mod engines;
mod errand;

pub use self::engines::Engines;
pub use self::errand::Errand;
