//! Interface of a cache for memory spaces: the cache's frames, and the pages of its files.
//!
//! Owns. Non-blocking accesses to pages, and waits between them ([`mapped`]); frames ([`frames`]).
//!
//! Calls all lower layers. Callers hold locks of a space only if the called function permits this.

pub(crate) mod frames;
pub(crate) mod mapped;
