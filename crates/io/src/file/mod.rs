//! A file, through the kernel's page cache or past it.
//!
//! [`FileBackend`] keeps the contract of [`Backend`](crate::Backend).
//!
//! # Single writer
//!
//! A writer holds a write lock on the whole file (except with [`FileLock::None`]), which belongs to
//! the open file description and is acquired before any change of a file, including truncation. A
//! second writer, in this or another process, is refused or waits. Readers acquire no lock.
//!
//! # Durable name
//!
//! After a loss of power, synced data is unreachable if no name leads to it. The first sync of
//! every file opened for writing therefore also syncs the file's directory, since the process that
//! created the file may have been killed before it could. Exceptions: block devices, files given by
//! descriptor, file systems without such syncs, and existing files in a directory that the process
//! may not read. The programs that created the directories above must sync them.
//!
//! # Direct transfers
//!
//! With [`Direct::Always`], or `Auto` if the system permits it, a file is transferred past the
//! kernel's page cache, in whole blocks. A write of part of a block reads the block into aligned
//! memory, changes it, writes it, and then sets the size if the block reaches past the end of the
//! file. Until then, the file is too long, and ends with zeros.
//! [`Backend::size`](crate::Backend::size) waits for that; another process may see the wrong size.
//! After a loss of power in between, the file may end with its last block, less than
//! [`alignment`](crate::Backend::alignment) bytes too late.
//!
//! Tested by `tests/contract.rs`, `tests/direct.rs`, `tests/file.rs`, `file/tests.rs`.

mod blocks;
mod direct;
mod file_backend;
mod file_system;
mod gate;
pub mod identity;
mod lock;
mod open;
mod options;
mod place;
mod sync;
mod transfer;

#[cfg(test)]
mod tests;

#[cfg(feature = "testing")]
pub use self::blocks::{Blocks, are_aligned, read as read_blocks, write as write_blocks};
pub use self::direct::Direct;
pub use self::file_backend::{FileBackend, UnlockedFile};
#[cfg(feature = "testing")]
pub use self::gate::{Alone, Gate, Shared};
pub(crate) use self::lock::check_process;
pub use self::lock::{Forked, LockWait};
pub use self::options::{FileLock, FileOptions};
// Models have no io_uring.
#[cfg(any(feature = "testing", not(loom)))]
pub use self::transfer::MOST_BYTES;
