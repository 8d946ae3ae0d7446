//! A simulated storage device: a loss of power leaves only the synced data of its files.
//!
//! | module | what |
//! |---|---|
//! | `image` | the bytes of a file by sectors; a sector that was never written is zeros |
//! | `content` | the content of one file that readers see, the durable content, and the changes between |
//! | `directory` | the same for the names |
//! | `state` | the state that all users of a device share: the files, failing syncs, the power |
//! | `file` | [`VolatileFile`]: the backend |
//! | `direct` | direct transfers of it |
//! | `device` | [`VolatileDevice`]: its files by name, and the loss of power |
//!
//! # The model
//!
//! Every change goes to the volatile memory of the system: readers see it, but it is not durable. A
//! change is a sector's new bytes, a size, or a name given or taken.
//!
//! - **A sync** makes all changes of the file durable. The first sync of every opened file also makes
//!   those of the directory durable, as a `FileBackend` does.
//! - **A crash** leaves the durable state. The changes since are decided for each sector by
//!   itself: its durable bytes survive, or its bytes after any one of the writes since, whatever
//!   becomes of earlier writes and of other sectors. The system may have written back just that at
//!   any moment, in any order. Each change of the size survives or not. So does each change of names,
//!   but one survives only with the earlier changes of the same names.
//! - **A direct transfer** ([`VolatileDevice::with_direct_transfers`]) is of whole blocks. A device has a cache too, so it is no more durable than another one. The size is a
//!   change of its own: that of a padded tail may survive without the one that makes it right.
//! - **A failed sync** is one of Linux: every changed sector is marked clean. Either its bytes were written
//!   nevertheless; or readers still see them until a crash; or they are dropped, and readers see the
//!   durable ones. Changes of the size and of names remain to be synced. Later syncs succeed.
//!
//! Proved by: `tests/volatile.rs`, against a model of single bytes.

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
