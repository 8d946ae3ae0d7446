//! Accesses: reads, writes and pins, from the hit without a lock to the fault that makes a page.
//!
//! Owns: the optimistic read ([`optimistic`]) and the slow one ([`read`]); writes ([`write`](mod@write)); new pages ([`fault`]); pins ([`pin`]); views ([`view`]);
//! accesses of files ([`files`]).
//!
//! May call: `mm` and all below; of `motion` only compaction, for large pages.
//!
//! Promises: a read has the bytes of one moment of each page. A write is wholly before a fork or not in it. Pinned bytes do not
//! change. A hit takes no lock and no reference, and a read that hits writes nothing shared but its thread's own word.
//!
//! Locks: structure, for reading, in what is no hit; nothing is held while a file's page, or the end of a migration, is waited for.

mod fault;
pub(crate) mod files;
pub(crate) mod optimistic;
pub(crate) mod pin;
pub(crate) mod read;
pub(crate) mod view;
pub(crate) mod write;
