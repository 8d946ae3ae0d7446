//! Interface of a cache for memory spaces: the cache's frames, and the pages of its files.
//!
//! Owns. Accesses to pages of a file that do not wait, and the waits that they need ([`mapped`]);
//! the cache's frames, for users that share them ([`frames`]).
//!
//! Calls all lower layers. The crate `pagewell-space` calls this module, with locks of a space held
//! where the documentation of the function permits this.
//!
//! Guarantees. A *try* neither waits, nor allocates, nor calls the backend or the program.

pub(crate) mod frames;
pub(crate) mod mapped;
