//! What memory spaces use of a cache: its frames, and the pages of its files.
//!
//! Owns. Accesses to pages of a file that do not wait, and waiting for what they need ([`mapped`]); the cache's frames, to share
//! them ([`frames`]).
//!
//! Calls everything below. It is called by the crate `pagewell-space`, with locks of a space in hand where it says so.
//!
//! Promises. A *try* neither waits, nor allocates, nor calls the storage or the program.

pub(crate) mod frames;
pub(crate) mod mapped;
