//! The parts of a cache that memory spaces use: its frames, and the pages of its files.
//!
//! Owns. Accesses to pages of a file that do not wait, and the waits that they need ([`mapped`]); the cache's frames, to be
//! shared ([`frames`]).
//!
//! Calls everything below. The crate `pagewell-space` calls it, with locks of a space in hand where the function allows that.
//!
//! Promises. A *try* neither waits, nor allocates, nor calls the storage or the program.

pub(crate) mod frames;
pub(crate) mod mapped;
