//! Resources of all spaces of a pool: its frames, their source, and the stoppable writers.
//!
//! - Owns: the pool ([`frames`]), its [`source`] and [`stock`], and the [`writers`]. Most unsafe
//!   code is in [`view`].
//! - Promises: an allocation may evict clean pages and wait for fills, but not for writeback. If
//!   that is needed, the operation releases all locks, waits, and is repeated
//!   ([`frames::Supply::with_room`]). While writers are stopped, none is at work.
//! - Locks: the lock of the stock; the writer scan lock.

pub(crate) mod frames;
pub(crate) mod source;
mod stock;
pub(crate) mod view;
pub(crate) mod writers;
