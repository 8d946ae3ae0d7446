//! Storage backends: where the bytes of a cached file come from.
//!
//! | module | what |
//! |---|---|
//! | `backend` | the [`Backend`] trait and its contract |
//! | `file` | [`FileBackend`]: a file, through the operating system's own cache |
//! | `memory` | [`MemoryBackend`]: bytes in memory |
//! | `fault` | [`FaultBackend`]: another backend whose calls fail, fall short, wait or are counted at will |

#![deny(unsafe_code)]

mod backend;
mod fault;
#[cfg(not(loom))]
mod file;
mod memory;

pub use backend::{Backend, FileId};
pub use fault::{Fault, FaultBackend};
#[cfg(not(loom))]
pub use file::FileBackend;
pub use memory::MemoryBackend;
