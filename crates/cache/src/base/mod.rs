//! Slot and state words, pure types, and memory of the operating system. All other modules of the
//! cache use them.
//!
//! Owns.
//! - the slot's word ([`slot`]) and the page's state ([`page_state`]), with every legal transition;
//! - page numbers and sizes ([`page`]), leaf clusters ([`extent`]), the change that a write makes
//!   ([`edit`]), errors ([`error`]);
//! - page codecs ([`page_hooks`]), and the stored size of a file in whole pages ([`layout`]);
//! - memory for transfers ([`aligned`]), I/O engines ([`engines`]), offloaded calls (`errand`);
//! - the owning process of a cache ([`home`]), arrays that use memory only where they are written
//!   ([`reserved`]), facts about the machine ([`system`]).
//!
//! Calls no other module of the cache, and has access to no file and to no other state of the
//! cache.
//!
//! Promises. A [`slot`] and a [`page_state`] are plain values. The module that owns the atomic word
//! changes it by a compare-and-swap or a store.

pub(crate) mod aligned;
pub(crate) mod edit;
pub(crate) mod engines;
#[cfg(not(loom))]
pub(crate) mod errand;
pub(crate) mod error;
pub(crate) mod extent;
pub(crate) mod home;
pub(crate) mod layout;
pub(crate) mod page;
pub(crate) mod page_hooks;
pub(crate) mod page_state;
pub(crate) mod reserved;
pub(crate) mod slot;
pub(crate) mod system;
