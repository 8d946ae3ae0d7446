//! Accesses: reads, writes and pins, from the hit without a lock to the fault that creates a page.
//!
//! - Owns: the optimistic read ([`optimistic`]) and the slow one ([`read`]); writes
//!   ([`write`](mod@write)); new pages ([`fault`]); pins ([`pin`]); views ([`view`]); accesses of
//!   files ([`files`]).
//! - May call: `mm` and all below; of `motion` only compaction, for large pages.
//! - Promises: a read returns the bytes of each page at one moment. A write is in a fork entirely
//!   or not at all. Pinned bytes do not change. A hit takes no lock and no reference, and a read
//!   that hits writes no shared memory except its thread's own word.
//! - Locks: structure, for reading, except in hits; none while waiting for a file's page or the end
//!   of a migration.

mod fault;
pub(crate) mod files;
pub(crate) mod optimistic;
pub(crate) mod pin;
pub(crate) mod read;
pub(crate) mod view;
pub(crate) mod write;
