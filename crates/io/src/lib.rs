//! Storage backends: sources and destinations of the bytes of cached files.
//!
//! A module depends only on modules above it in this table.
//!
//! | module | contents |
//! |---|---|
//! | `backend` | the [`Backend`] trait and its contract; requests that complete later |
//! | `memory` | [`MemoryBackend`]: bytes in memory |
//! | `file` | [`FileBackend`]: a file, through the kernel's page cache or past it |
//! | [`engine`] | concurrent requests: by the caller, threads, io_uring or a simulator |
//! | [`testing`] | internals for the test doubles of the crate `pagewell-io-testing` |

#![deny(unsafe_code)]

mod backend;
#[cfg(not(loom))]
pub mod engine;
#[cfg(not(loom))]
mod file;
mod memory;
pub mod testing;

pub use backend::{Backend, FileId};
#[cfg(not(loom))]
pub use backend::{Buffered, Transfers};
#[cfg(not(loom))]
pub use file::{
    Direct, FileBackend, FileLock, FileOptions, Forked, LockWait, UnlockedFile, identity,
};
pub use memory::MemoryBackend;
