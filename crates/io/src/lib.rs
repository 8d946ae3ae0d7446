//! Storage backends: sources and destinations of the bytes of cached files.
//!
//! A module depends only on modules above it in this table.
//!
//! | module | contents |
//! |---|---|
//! | `aligned` | [`Aligned`]: memory for direct transfers |
//! | `backend` | the [`Backend`] trait and its contract; requests that complete later |
//! | `memory` | [`MemoryBackend`]: bytes in memory |
//! | `file` | [`FileBackend`]: a file, through the kernel's page cache or past it |
//! | [`engine`] | concurrent requests: by the caller, threads or io_uring |
//! | [`pools`] | the engine of a cache, and threads for calls that may block |
//! | `testing` | feature `testing`: internals for the crate `pagewell-io-testing` |

#![deny(unsafe_code)]
// `testing` makes these items reachable.
#![cfg_attr(not(feature = "testing"), allow(unreachable_pub))]
// Only io_uring, which models exclude, uses some functions.
#![cfg_attr(loom, allow(dead_code))]

mod aligned;
mod backend;
pub mod engine;
mod file;
mod memory;
pub mod pools;
#[cfg(feature = "testing")]
pub mod testing;

pub use aligned::Aligned;
pub use backend::{Backend, FileId};
pub use backend::{Buffered, Transfers};
pub use file::{
    Direct, FileBackend, FileLock, FileOptions, Forked, LockWait, UnlockedFile, identity,
};
pub use memory::MemoryBackend;
