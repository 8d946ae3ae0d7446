//! What the engines read and write: files, memory, buffers, pseudo-random numbers and positions.
//!
//! - **Owns** temporary files, their names and their place ([`Scratch`]), the user's file ([`DataFile::users`]), mappings and plain memory.
//! - **May call** nothing else of the benchmark.
//! - **Promises** that a user's file is opened read-only; that a temporary file is gone when the run ends (one with a name: unless SIGKILL or a second signal ends it); that a
//!   folder without room is told, and the next one taken; that the same seed gives the same bytes and positions. It knows no engine and no case.

mod buffer;
mod file;
mod mapped;
mod memory;
mod positions;
mod rng;
mod scratch;

pub(in crate::bench) use self::buffer::Buffer;
pub(in crate::bench) use self::file::DataFile;
pub(in crate::bench) use self::mapped::{Mapped, MappedMut};
pub(in crate::bench) use self::memory::Memory;
pub(in crate::bench) use self::positions::{Fixed, Odd, Positions, Uniform};
pub(in crate::bench) use self::rng::Rng;
pub(in crate::bench) use self::scratch::Scratch;
