//! A simulated storage device: a loss of power leaves only the synced data of its files.
//!
//! # The model
//!
//! A change is new content of a sector, a new size, or an added or removed name. Readers see it,
//! but it is not durable.
//! - **A sync** makes all changes of the file durable. The first sync of every opened file also
//!   includes the directory, like that of a `FileBackend`.
//! - **A crash** leaves the durable state and any part of the later changes. Each sector,
//!   independently of the others, has its durable bytes or its bytes after any one of the later
//!   writes, as the system may have written back sectors in any order. A change of the size or of
//!   names survives or does not; one of names only with all earlier changes of the same names.
//! - **A direct transfer** ([`VolatileDevice::with_direct_transfers`]) is no more durable than a
//!   buffered one, since a device has a cache too. The padded size of a partial tail block and its
//!   correction are separate changes: the first may survive without the second.
//! - **A failed sync** marks every changed sector clean, as on Linux. Either its bytes were written
//!   nevertheless, or readers see them until a crash, or they are dropped and readers see the
//!   durable bytes. Changes of size and names remain to be synced. Later syncs succeed.
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
