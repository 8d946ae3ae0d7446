//! Storage backends: sources and destinations of the bytes of cached files.
//!
//! A module depends only on modules above it in this table.
//!
//! | module | contents |
//! |---|---|
//! | `backend` | the [`Backend`] trait and its contract; requests that complete later |
//! | `memory` | [`MemoryBackend`]: bytes in memory |
//! | `file` | [`FileBackend`]: a file, through the kernel's page cache or past it |
//! | `doubles` | test doubles: [`FaultBackend`] injects faults; [`VolatileDevice`] loses power |
//! | [`engine`] | concurrent requests: by the caller, threads, io_uring or a simulator |

#![deny(unsafe_code)]

mod backend;
mod doubles;
#[cfg(not(loom))]
pub mod engine;
#[cfg(not(loom))]
mod file;
mod memory;

pub use backend::{Backend, FileId};
#[cfg(not(loom))]
pub use backend::{Buffered, Transfers};
pub use doubles::{Fault, FaultBackend, Operation, SectorWrites, VolatileDevice, VolatileFile};
#[cfg(not(loom))]
pub use file::{
    Direct, FileBackend, FileLock, FileOptions, Forked, LockWait, UnlockedFile, identity,
};
pub use memory::MemoryBackend;
