//! Free frames: allocating, evicting, and the bounds of both.
//!
//! Owns. Everything that decides where a free frame comes from: permits of fills ([`permits`]), transfers that will make frames
//! evictable ([`transfers`]), memory used outside of frames ([`budget`], [`charge`]), frames for
//! leaves ([`leaf_stock`], [`leaves`]), eviction of one page or leaf ([`evict`]), the order in which pages go ([`policy`]), rounds until one finds
//! something ([`reclaim`]), what holds the frames if none does ([`census`], [`out_of_frames`]), and the entry ([`alloc`]). Its
//! state is one value ([`Supply`](parts::Supply)).
//!
//! Calls `base` and `index`. A leaf belongs to a file, which this room does not know: it asks the owner of the files through
//! [`LeafOwners`](owners::LeafOwners).
//!
//! Promises. Unclean, pinned or locked pages are not evicted, nor claimed to find that out. Nothing here waits for a claim or for the
//! program. It waits for the storage only in a permit and in rounds during transfers. A request ends with a block, or with the reason
//! that there is none: at once, if nothing can become free by waiting. Pages, index, sets and records together stay within the
//! capacity.

pub(crate) mod alloc;
pub(crate) mod budget;
pub(crate) mod census;
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
