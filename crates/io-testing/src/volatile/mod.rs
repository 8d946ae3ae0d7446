//! A simulated storage device, which may lose unsynced data when it loses power.
//!
//! # The model
//!
//! A change is the new content of a sector, a new size, or an added or removed name.
//! - **A sync** makes all changes of the file durable. The first successful sync of every opened
//!   file also includes the directory, as in a `FileBackend`.
//! - **A crash** leaves the durable state and any part of the later changes. Each sector,
//!   independently of the others, has its durable bytes, its bytes after one of the later writes,
//!   or a mixture if writes may be torn. A change of the size survives or does not. So does a
//!   change of names, but only with all earlier changes of the same names.
//! - **A direct transfer** ([`VolatileDevice::with_direct_transfers`]) is no more durable than a
//!   buffered one, since a device has a cache too. The padded size of a partial tail block and its
//!   correction are separate changes: the first may survive without the second.
//! - **A failed sync** marks every changed sector of the file clean, as on Linux. Either its bytes
//!   were written nevertheless, or readers see them until a crash, or they are dropped and readers
//!   see the durable bytes. Changes of size and names remain to be synced. Later syncs can succeed.
//!
//! Tested by `tests/volatile.rs` against a model of single bytes.

mod content;
mod device;
mod direct;
mod directory;
mod file;
mod image;
mod rng;
mod state;

pub use self::content::SectorWrites;
pub use self::device::VolatileDevice;
pub use self::file::VolatileFile;
