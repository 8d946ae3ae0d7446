//! Accesses: reads, writes, pins and views, from the lock-free hit to the fault that creates a
//! page.
//!
//! - Owns: the optimistic read ([`optimistic`]) and the slow one ([`read`]); writes
//!   ([`write`](mod@write)); new pages ([`fault`]); pins ([`pin`]); views ([`view`]); accesses of
//!   files ([`files`]).
//! - May call: `mm` and all modules below it; of `motion` only compaction, for large pages.
//! - Promises: a read returns the bytes of each page at one moment. A write is in a fork entirely
//!   or not at all. Pinned bytes do not change. A hit takes no lock and no reference. A read that
//!   hits a page of the space writes no shared memory; one that hits the file used last at the
//!   address ([`crate::areas::noted`]) writes only a word of its own thread.
//! - Locks: structure, for reading, except in hits; none while waiting for a file's page or the end
//!   of a migration.

mod fault;
pub(crate) mod files;
pub(crate) mod optimistic;
pub(crate) mod pin;
pub(crate) mod read;
pub(crate) mod view;
pub(crate) mod write;
