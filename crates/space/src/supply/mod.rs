//! Resources of all spaces of a pool: its frames, their source, and the stoppable writers.
//!
//! - Owns: the pool and its source ([`source`]); memory by frame number ([`view`], [`raw`]: most of
//!   the unsafe steps of this crate); allocation, with the frames reserved for tables ([`frames`],
//!   [`stock`]); the writers at work ([`writers`]).
//! - May call: `words`, to check that an allocating thread holds no claim; `error`.
//! - Promises: an allocation may evict clean pages, but waits for no backend and no program. If
//!   that is needed, it is done with no lock held, and the operation is repeated
//!   ([`frames::Supply::with_room`]). While writers are stopped, none is at work.
//! - Locks: that of the stock; the scan of the writers.

pub(crate) mod frames;
pub(crate) mod raw;
pub(crate) mod source;
mod stock;
pub(crate) mod view;
pub(crate) mod writers;
