//! A simulated storage device, of whose files a loss of power leaves only what was synced.
//!
//! | module | what |
//! |---|---|
//! | `rng` | random decisions that a seed repeats |
//! | `image` | the bytes of a file by sectors; one that was never written is zeros |
//! | `content` | what readers of one file see, what of it is durable, and the changes between |
//! | `directory` | the same of the names |
//! | `state` | a device as all who use it share it: the files, failing syncs, the power |
//! | `file` | [`VolatileFile`]: the backend |
//! | `device` | [`VolatileDevice`]: its files by name, and the loss of power |
//!
//! # The model
//!
//! Every change goes to the volatile memory of the system: readers see it, and it is not durable. A
//! change is a sector's new bytes, a size, or a name given or taken.
//!
//! - **A sync** makes all changes of the file durable, and the first one of every opened file also
//!   those of the directory, as that of a `FileBackend` does.
//! - **A crash** leaves what is durable. Of the changes since, those of each sector are decided on
//!   their own: its durable bytes survive, or those after any one of the writes since, whatever
//!   becomes of earlier ones and of other sectors. That is what the system may have written back at
//!   any moment, in any order. Each change of the size survives or not. So does each change of names,
//!   except that one survives only with the earlier ones of the same names.
//! - **A failed sync** is one of Linux: every changed sector is marked clean. Its bytes were written
//!   nevertheless, or readers still see them until a crash, or they are dropped, and readers see the
//!   durable ones. Changes of the size and of names remain to be synced. Later syncs succeed.
//!
//! Proved by: `tests/volatile.rs`, against a model of single bytes.

mod content;
mod device;
mod directory;
mod file;
mod image;
mod rng;
mod state;

pub use self::content::SectorWrites;
pub use self::device::VolatileDevice;
pub use self::file::VolatileFile;
