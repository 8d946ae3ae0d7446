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
//! Every change goes to the volatile memory of the system: readers see it, but it is not durable. A
//! change is a sector's new bytes, a size, or a name added or removed.
//!
//! - **A sync** makes all changes of the file durable. The first sync of every opened file also
//!   makes those of the directory durable, as a `FileBackend` does.
//! - **A crash** leaves the durable state. The later changes survive for each sector independently:
//!   its durable bytes survive, or its bytes after any one of the later writes, independent of
//!   earlier writes and of other sectors. The system may have written back exactly those at any
//!   moment, in any order. Each change of the size survives or not. So does each change of names,
//!   but only together with the earlier changes of the same names.
//! - **A direct transfer** ([`VolatileDevice::with_direct_transfers`]) consists of whole blocks. A
//!   device has a cache too, so it is no more durable than other transfers. The size is a separate
//!   change: that of a padded tail may survive without its correction.
//! - **A failed sync** behaves as on Linux: every changed sector is marked clean. Either its bytes
//!   were written nevertheless; or readers see them until a crash; or they are dropped, and readers
//!   see the durable ones. Changes of size and names remain to be synced. Later syncs succeed.
//!
//! Tested by `tests/volatile.rs`, against a model of single bytes.

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
