//! Free frames: allocation, eviction, and the limits of both.
//!
//! Owns. Every source of free frames: budget reservations of fills ([`permits`]), and transfers in
//! flight ([`transfers`]); memory outside of frames, for which frames are *withheld* ([`budget`]);
//! [`leaves`] and their frames ([`leaf_stock`]); eviction of one page or leaf ([`evict`]), its
//! order (the [`queues`] of the default policy; the [`clock`] hands of the policy CLOCK and of
//! reclaim passes under either policy), reclaim passes ([`reclaim`]), their statistics and error
//! ([`census`]). The entry point is [`alloc`], and the state one value ([`Supply`](parts::Supply)).
//!
//! Calls `base` and `index`, and the owner of the files, to which leaves belong, through
//! [`LeafOwners`](parts::LeafOwners).
//!
//! Guarantees. Dirty, unsynced, pinned and locked pages are not evicted, and usually not even
//! claimed. No operation waits for a claim or for a writeback callback. Operations wait for
//! backends and page codecs in two cases only: for a reservation, and between reclaim passes while
//! transfers are in flight (also indirectly: for a leaf-creation lock whose holder waits there). A
//! request that may wait does so only if this may free a frame; it returns a block, or the reason
//! why none is available. Pages, index, page sets and metadata together stay within the capacity.

pub(crate) mod alloc;
pub(crate) mod budget;
pub(crate) mod census;
pub(crate) mod clock;
pub(crate) mod evict;
pub(crate) mod leaf_stock;
pub(crate) mod leaves;
pub(crate) mod parts;
pub(crate) mod permits;
pub(crate) mod queues;
pub(crate) mod reclaim;
pub(crate) mod transfers;
