//! Words, pure types and memory of the system: what every room of the cache speaks.
//!
//! Owns. The slot's word ([`slot`]) and the page's state ([`page_state`]), with every legal transition; page numbers and
//! sizes ([`page`]); what a write does to a page's bytes ([`edit`]); errors ([`error`]); the process that made the cache
//! ([`home`]); arrays that use memory where they are written ([`reserved`]); what the system says of itself ([`system`]).
//!
//! Calls nothing of the cache. Knows no file and no other cache state: a function here gets what it works on.
//!
//! Promises. The words are values: changing one is a compare-and-swap or a store of who owns it, in a room above.

pub(crate) mod edit;
pub(crate) mod error;
pub(crate) mod home;
pub(crate) mod page;
pub(crate) mod page_state;
pub(crate) mod reserved;
pub(crate) mod slot;
pub(crate) mod system;
