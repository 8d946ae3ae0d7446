//! A simulated storage device: a loss of power leaves only the synced data of its files.
//!
//! | module | contents |
//! |---|---|
//! | `image` | the bytes of a file by sectors; a sector that was never written is zeros |
//! | `content` | cached and durable content of one file, and the changes between |
//! | `directory` | the same for the names |
//! | `state` | state shared by all users of a device: files, failing syncs, power |
//! | `file` | [`VolatileFile`]: the backend |
//! | `direct` | its direct transfers |
//! | `device` | [`VolatileDevice`]: files by name, and the loss of power |
//!
//! # The model
//!
//! A change is a new content of a sector, a new size, or an added or removed name. Every change is
//! made in the volatile memory of the system: readers see the change, but it is not durable.
//!
//! - **A sync** makes all changes of the file durable. The first sync of every opened file also
//!   makes the changes of the directory durable, like a `FileBackend`.
//! - **A crash** leaves the durable state and any part of the later changes. Each sector,
//!   independently of the others, has its durable bytes or its bytes after any one of the later
//!   writes: the system may have written back sectors at any moment and in any order. Each change
//!   of the size survives or not. Each change of names survives or not, but only together with all
//!   earlier changes of the same names.
//! - **A direct transfer** ([`VolatileDevice::with_direct_transfers`]) consists of whole blocks. A
//!   device has a cache too, so a direct transfer is no more durable than another. The size is a
//!   separate change: the size of a padded tail may survive without its correction.
//! - **A failed sync** behaves as on Linux: every changed sector is marked clean. For each such
//!   sector, either its bytes were written nevertheless, or readers see them until a crash, or they
//!   are dropped and readers see the durable bytes. Changes of size and names remain to be synced.
//!   Later syncs succeed.
//!
//! Tested by `tests/volatile.rs` against a model of single bytes.

mod content;
mod device;
mod direct;
mod directory;
mod file;
mod image;
mod state;

pub use self::content::SectorWrites;
pub use self::device::VolatileDevice;
pub use self::file::VolatileFile;
