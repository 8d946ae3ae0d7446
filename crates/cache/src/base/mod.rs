//! Words, pure types and memory of the system: the vocabulary of all rooms of the cache.
//!
//! Owns. The slot's word ([`slot`]) and the page's state ([`page_state`]), with every legal transition; page numbers and sizes
//! ([`page`]), extents ([`extent`]); the change that a write makes ([`edit`]); errors ([`error`]); hooks on bytes ([`page_hooks`]), how the size of a file in whole pages is told ([`layout`]), and memory for transfers ([`aligned`]); the engine that does transfers ([`engines`]), and calls by threads for tasks (`errand`); the process that made the cache ([`home`]); arrays that use
//! memory only where they are written ([`reserved`]); facts about the machine ([`system`]).
//!
//! Calls nothing of the cache. Knows no file and no other cache state: a function here gets what it works on.
//!
//! Promises. The words are values: in a room above, their owner changes them by a compare-and-swap or a store.

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
