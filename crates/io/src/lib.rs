//! Storage backends: where the bytes of a cached file come from and go to.
//!
//! A room names only rooms above it in this table. Its head says what it owns, what it calls and what it promises.
//!
//! | room | what |
//! |---|---|
//! | `backend` | the [`Backend`] trait and its contract; requests that complete later |
//! | `memory` | [`MemoryBackend`]: bytes in memory |
//! | `file` | [`FileBackend`]: a file, through the operating system's own cache or past it |
//! | `doubles` | for tests: [`FaultBackend`], another backend whose calls fail, fall short, wait or are counted at will; [`VolatileDevice`], files of which a loss of power leaves only the synced data |
//! | [`engine`] | many requests at once: by the caller, by threads, by io_uring, by a simulator |

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
pub use file::{Direct, FileBackend, FileOptions, Forked, UnlockedFile, identity};
pub use memory::MemoryBackend;
