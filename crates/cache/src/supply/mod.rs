//! Frames for who needs them: allocating, evicting, and what bounds both.
//!
//! Owns. Everything that decides where a free frame comes from: permits of fills ([`permits`]), transfers that will make frames
//! evictable ([`transfers`]), what is used outside of frames ([`budget`], [`charge`]), frames for leaves ([`leaf_stock`],
//! [`leaves`]), eviction of one page or leaf ([`evict`]), the order in which pages go ([`policy`]), rounds until something was
//! found ([`reclaim`]), and the way in ([`alloc`]). Its state is one value ([`Supply`](parts::Supply)).
//!
//! Calls `base` and `index`. A leaf belongs to a file, which this room does not know: whoever has the files is asked through
//! [`LeafOwners`](owners::LeafOwners).
//!
//! Promises. What is not clean, pinned or locked is not evicted. Nothing here waits for a claim or for the
//! program, nor for the storage but in a permit and in rounds during transfers; a request ends with a block or with the reason that there is none. Pages, index and records together stay within
//! the capacity.

pub(crate) mod alloc;
pub(crate) mod budget;
pub(crate) mod charge;
pub(crate) mod counters;
pub(crate) mod evict;
pub(crate) mod leaf_stock;
pub(crate) mod leaves;
pub(crate) mod out_of_frames;
pub(crate) mod owners;
pub(crate) mod parts;
pub(crate) mod permits;
pub(crate) mod policy;
mod raw;
pub(crate) mod reclaim;
pub(crate) mod transfers;
