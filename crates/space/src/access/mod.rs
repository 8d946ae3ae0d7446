//! Accesses: reads, writes, pins and views, and the faults that create pages.
//!
//! - May call: `mm` and all modules below it; of `motion` only compaction, for large pages.
//! - Promises: the guarantees of [`Space`](crate::Space). A read or write that hits takes no lock
//!   and no reference. A read that hits a page of the space writes no shared memory; one that hits
//!   the file noted for the address ([`crate::areas::noted`]) writes only a word of its own thread.
//! - Locks: structure, for reading, except in hits; none during waits for files or migrations.

mod atomic;
mod fault;
pub(crate) mod files;
pub(crate) mod optimistic;
pub(crate) mod pin;
pub(crate) mod read;
pub(crate) mod view;
pub(crate) mod write;
