//! Storage backends: where the bytes of a cached file come from and go to.
//!
//! | module | what |
//! |---|---|
//! | `backend` | the [`Backend`] trait and its contract |
//! | `file` | [`FileBackend`]: a file, through the operating system's own cache |
//! | `memory` | [`MemoryBackend`]: bytes in memory |
//! | `fault` | [`FaultBackend`]: another backend whose calls fail, fall short, wait or are counted at will |
//! | `volatile` | [`VolatileDevice`]: files of which a loss of power leaves only what was synced |

#![deny(unsafe_code)]

mod backend;
mod fault;
#[cfg(not(loom))]
mod file;
mod memory;
mod volatile;

pub use backend::{Backend, FileId};
pub use fault::{Fault, FaultBackend, Operation};
#[cfg(not(loom))]
pub use file::{FileBackend, FileOptions, Forked, UnlockedFile};
pub use memory::MemoryBackend;
pub use volatile::{SectorWrites, VolatileDevice, VolatileFile};
