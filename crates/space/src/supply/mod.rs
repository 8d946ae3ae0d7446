//! What all spaces of a pool draw on: its frames, the source that makes room among them, and the writers that may be stopped.
//!
//! Owns: the pool and who gives it ([`source`]); its memory by number ([`view`], [`raw`]: most of the unsafe steps of this crate);
//! allocation, with the frames that are set aside for tables ([`frames`], [`stock`]); the writers at work ([`writers`]).
//!
//! May call: `words`, for the check that who allocates has no claim; `error`.
//!
//! Promises: to allocate may evict what is clean, and waits for no storage and no program; what takes that is done with no lock
//! held, and then the operation is done again ([`frames::Supply::with_room`]). While writers are stopped, none is at work.
//!
//! Locks: that of the stock; a visit of the writers.

pub(crate) mod frames;
pub(crate) mod raw;
pub(crate) mod source;
mod stock;
pub(crate) mod view;
pub(crate) mod writers;
