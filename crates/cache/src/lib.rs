//! The page cache: files of any size in a fixed amount of memory.
//!
//! | module | what |
//! |---|---|
//! | `cache`, `file`, `frames`, `guard`, `guard_mut`, `error` | what users hold: [`Cache`], [`File`], [`PageGuard`], [`PageGuardMut`], [`Error`] |
//! | `read` | the optimistic and the referenced read |
//! | `lookup` | from a page to a reference to its frame |
//! | `fill`, `ahead`, `in_flight` | reading missing pages; how many at a time; how many at once |
//! | `write` | changing bytes of pages in the cache |
//! | `mapped` | what memory spaces use of a file: accesses that do not wait, and waiting for what they need |
//! | `moves` | moving pages to other frames |
//! | `page_state`, `page_set` | whether the storage has a page's bytes (pure); which pages it has not |
//! | `flush`, `groups`, `storage_size`, `writes` | giving pages to the storage and making them durable; in which order; the size of the file there; what a file has for that |
//! | `writeback`, `quiet` | who writes back, and when; and when not |
//! | `home` | the process that made the cache, and no other |
//! | `budget` | what is used outside of frames, counted all the same |
//! | `reclaim` | evicting pages when there are no free frames |
//! | `claim` | the one choke point that changes a slot |
//! | `index`, `leaf_stock`, `reserved`, `slot` | from a page to its slot; the array of slots; the word (pure) |
//! | `mapping`, `shared` | what the handles of a file share; what the files of a cache share |
//! | `opened` | who keeps a file open, and who only looks at it |
//! | `raw`, `publish` | the unsafe steps |
//!
//! Locks, and the orders in which they are taken, are in `docs/LOCKING.md`; the life of a read is in
//! `docs/ARCHITECTURE.md`.

#![deny(unsafe_code)]
// The models drive the protocols directly; what only users call is left out of them.
#![cfg_attr(loom, allow(dead_code))]

#[cfg(not(loom))]
mod ahead;
mod budget;
#[cfg(not(loom))]
mod cache;
mod claim;
mod edit;
mod error;
#[cfg(not(loom))]
mod file;
mod fill;
mod flush;
mod frames;
mod groups;
mod growth;
#[cfg(not(loom))]
mod guard;
#[cfg(not(loom))]
mod guard_mut;
mod home;
mod in_flight;
mod index;
mod leaf_stock;
mod lookup;
mod mapped;
mod mapping;
#[cfg(loom)]
pub mod model;
#[cfg(all(test, loom))]
mod models;
mod moves;
mod opened;
mod page_lock;
mod page_set;
mod page_size;
mod page_state;
mod publish;
#[cfg(not(loom))]
mod quiet;
mod raw;
mod read;
mod reclaim;
mod reserved;
mod shared;
mod slot;
mod storage_size;
mod transfers;
mod write;
mod writeback;
mod writes;

#[cfg(not(loom))]
pub use cache::{Builder, Cache, OpenOptions, Stats};
pub use error::{Error, ErrorKind, Op};
#[cfg(not(loom))]
pub use file::File;
pub use frames::CacheFrames;
#[cfg(not(loom))]
pub use guard::{OwnedPageGuard, PageGuard};
#[cfg(not(loom))]
pub use guard_mut::PageGuardMut;
pub use mapped::{FileUser, HeldPage, MappedFile, Spare, Tried, Wait};
pub use mapping::MAX_FILE_BYTES;
pub use moves::PageMove;
#[cfg(not(loom))]
pub use quiet::Quiet;
pub use writes::{BeforeWrite, Writeback};
