//! A file, through the operating system's own cache or past it.
//!
//! - Owns: the open file, its lock, its place in a directory, and which of their changes are not durable yet.
//! - Calls: `backend`.
//! - Promises: the contract of [`Backend`](crate::Backend), for a regular file or a block device.
//!
//! | module | what |
//! |---|---|
//! | `file_backend` | [`FileBackend`], and [`UnlockedFile`]: a file that is not locked yet |
//! | `options` | [`FileOptions`]: the treatment of the file when it is opened for writing |
//! | `direct` | [`Direct`]: whether transfers go past the operating system's cache, and why not |
//! | `transfer` | vectored reads and writes, to their end |
//! | `blocks` | direct transfers: whole blocks, and parts of blocks by way of aligned memory |
//! | `gate` | who may write whole blocks, and who parts of them |
//! | `sync` | syncs that are not repeated after an interruption |
//! | `begun` | how much is on its way to the device before a sync |
//! | `lock` | the lock that keeps a second writer away |
//! | `identity` | file identity beyond device and inode number |
//! | `open` | opening by path: leases, pipes |
//! | `step` | errors that name the failed step of opening |
//! | `place` | directory entry of the file, and its durability |
//! | `owner` | the process that opened the file, and no other |
//!
//! # Only one writer
//!
//! A writer holds a write lock on the whole file, which belongs to the open file
//! description. A second writer is refused, in this or another process, however often other
//! descriptions of the same file are closed. The lock is taken before the file is changed in any way, so
//! before it is truncated too. Reading takes no lock.
//!
//! # A durable name
//!
//! Synced data is of no use if no name leads to it after a loss of power. So the
//! first sync of every file opened for writing also syncs its directory, whoever created the file: the
//! program may have created it in an earlier run, and been killed before it could sync.
//! The directories above it are left to the programs that made them.
//!
//! # Direct transfers
//!
//! A file that is opened with [`Direct::Auto`] or `Always` is read and written past the operating system's cache, in whole blocks. What is no whole
//! block is done by way of aligned memory: a read cuts what was asked for out of the blocks around it; a write reads the block, changes it, writes it, and
//! then sets the size, if the block reaches past the file's end. For that moment the file is longer than it is to be, by zeros. [`Backend::size`](crate::Backend::size) waits until
//! it is over; another process may see it, and so may who starts after a loss of power: the file then ends at the end of its last block, at most
//! [`alignment`](crate::Backend::alignment) bytes late.
//!
//! Proved by: `tests/contract.rs`, `tests/direct.rs`, `tests/file.rs`, and `file/tests.rs` for the directories.

mod begun;
mod blocks;
mod direct;
mod file_backend;
mod gate;
pub mod identity;
mod lock;
mod open;
mod options;
mod owner;
mod place;
mod step;
mod sync;
mod transfer;

#[cfg(test)]
mod tests;

pub(crate) use self::blocks::{Blocks, are_aligned, read as read_blocks, write as write_blocks};
pub use self::direct::Direct;
pub use self::file_backend::{FileBackend, UnlockedFile};
pub(crate) use self::gate::Gate;
pub use self::options::FileOptions;
pub use self::owner::Forked;
pub(crate) use self::owner::Owner;
pub(crate) use self::transfer::MOST_BYTES;
