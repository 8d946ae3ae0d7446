//! A file, through the operating system's own cache.
//!
//! - Owns: the open file, its lock, its place in a directory, and what of that is not durable yet.
//! - Calls: `backend`.
//! - Promises: the contract of [`Backend`](crate::Backend), for a regular file or a block device.
//!
//! | module | what |
//! |---|---|
//! | `file_backend` | [`FileBackend`], and [`UnlockedFile`]: one that is not locked yet |
//! | `options` | [`FileOptions`]: what is to become of the file when it is opened for writing |
//! | `transfer` | vectored reads and writes, to their end |
//! | `sync` | syncs that are not taken up again |
//! | `lock` | the lock that keeps a second writer away |
//! | `place` | the directory and the name by which the file is found, and their durability |
//! | `owner` | the process that opened the file, and no other |
//!
//! # Only one writer
//!
//! Who opens a file for writing holds a write lock on all of it, which belongs to the open file
//! description: a second one is refused, by this or another process, however often other
//! descriptions of the same file are closed. It is taken before the file is changed in any way, so
//! also before it is truncated. Reading takes no lock.
//!
//! # A durable name
//!
//! What a sync has made durable is of no use if no name leads to it after a loss of power. So the
//! first sync of every file opened for writing also syncs its directory, whoever created it: the
//! program may have done so itself, in a life before, and been killed before it could sync. Renaming
//! does the same for both directories. The directories above them are left to who made them.
//!
//! Proved by: `tests/contract.rs`, `tests/file.rs`, and `file/tests.rs` for the directories.

mod file_backend;
mod lock;
mod options;
mod owner;
mod place;
mod sync;
mod transfer;

#[cfg(test)]
mod tests;

pub use self::file_backend::{FileBackend, UnlockedFile};
pub use self::options::FileOptions;
pub use self::owner::Forked;
