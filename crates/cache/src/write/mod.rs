//! Writing: changing bytes of pages in the cache, and the size of files.
//!
//! Owns. Writes within a page ([`page`]), of any length ([`bytes`]), past the end, appends and new sizes ([`growth`]); pages
//! pinned to be changed ([`pin_mut`], [`page_lock`], [`lock_wait`]); moves of pages to other frames ([`moves`]).
//!
//! Calls `base`, `index`, `supply`, `dirty`, `mapping`; `read` for missing pages; `writeback` where a write has to wait
//! for earlier ones (an earlier group, a cut of the storage).
//!
//! Promises. A write within one page is seen whole or not at all. Pins and transfers never see bytes change. A failed write
//! has changed nothing of the page at which it failed.

pub(crate) mod bytes;
pub(crate) mod growth;
pub(crate) mod lock_wait;
pub(crate) mod moves;
pub(crate) mod page;
pub(crate) mod page_lock;
#[cfg(not(loom))]
pub(crate) mod pin_mut;
mod raw;
