//! Writes to pages in the cache, and changes of file sizes.
//!
//! Owns. Writes within a page ([`page`]), and of any length and past the end ([`growth`]); pages
//! pinned for writing and their locks ([`pin_mut`]), and waits for these ([`lock_wait`]); moves of
//! pages to other frames ([`moves`]).
//!
//! Calls `base`, `index`, `supply`, `dirty`, `mapping`; `read` for missing pages; `writeback` for
//! the size of the backend and its bytes after the end.
//!
//! Guarantees. Readers see all of a write within one page, or nothing of it. Pins and transfers
//! never see bytes change. A failed write has changed nothing of the page at which it failed.

pub(crate) mod growth;
pub(crate) mod lock_wait;
pub(crate) mod moves;
pub(crate) mod page;
pub(crate) mod pin_mut;
