//! The page cache: files of any size in a fixed amount of memory.
//!
//! The modules, from the bottom up. Each imports only from modules below it (`crates/testkit/tests/layers.txt`):
//!
//! | module | what |
//! |---|---|
//! | `base` | words, pure types, memory of the system |
//! | `index` | from a page to its slot; leaves; the claim, the one choke point that changes a slot |
//! | `supply` | free frames: permits, budget, eviction and its policy, reclaim |
//! | `dirty` | which pages the storage does not have, the order in which they go there, and the errors that handles are told |
//! | `mapping` | the record of an open file; taking its pages out |
//! | `writeback` | giving pages to the storage and making them durable |
//! | `read` | hits, lookups, fills, pins, views |
//! | `write` | writes, growth, page locks, moves |
//! | `files` | the open files of a cache: opening, closing, the threads that write back |
//! | `spaces` | what memory spaces use of a cache |
//! | `api` | what users hold: [`Cache`], [`File`], [`OpenOptions`] |
//!
//! Each operation on a file or on the cache's frames is a type of its own in its module, named after what it does:
//! `Filler(mapping).fill(..)`, `Allocator(supply).alloc(..)`. So a call says which module it goes to.
//!
//! Locks, and the orders in which they are taken, are in `docs/LOCKING.md`; the life of a read is in
//! `docs/ARCHITECTURE.md`.

#![deny(unsafe_code)]
// The models drive the protocols directly; functions that only users call are left out of them.
#![cfg_attr(loom, allow(dead_code))]

#[cfg(not(loom))]
mod api;
mod base;
mod dirty;
mod files;
mod index;
mod mapping;
#[cfg(loom)]
pub mod model;
#[cfg(all(test, loom))]
mod models;
mod read;
mod spaces;
mod supply;
mod write;
mod writeback;

#[cfg(not(loom))]
pub use api::builder::Builder;
#[cfg(not(loom))]
pub use api::cache::{Cache, Info, Stats};
#[cfg(not(loom))]
pub use api::companion::companion_or_else;
#[cfg(not(loom))]
pub use api::file::{File, FileStats};
#[cfg(not(loom))]
pub use api::futures::{Append, PinPage, ReadAt, ReadMany, SyncData, WriteAt};
#[cfg(not(loom))]
pub use api::options::OpenOptions;
#[cfg(not(loom))]
pub use api::quiet::Quiet;
pub use base::error::{Error, ErrorKind, Op};
pub use base::page::MAX_FILE_BYTES;
pub use base::page_hooks::{OutgoingPage, PageHooks};
pub use dirty::options::{BeforeWrite, Writeback};
pub use index::token::{Token, TokenState};
pub use mapping::user::FileUser;
#[cfg(not(loom))]
pub use read::ahead::Advice;
pub use read::look::{OfFile, Torn, Watch, Words};
pub use read::look_at::{Looked, look_at};
#[cfg(not(loom))]
pub use read::many::ReadRequest;
#[cfg(not(loom))]
pub use read::pin::{OwnedPageGuard, PageGuard};
pub use read::view::View;
pub use spaces::frames::CacheFrames;
pub use spaces::mapped::{HeldPage, MappedFile, Spare, Tried, Wait};
pub use write::moves::PageMove;
#[cfg(not(loom))]
pub use write::pin_mut::{DetachedPageGuardMut, PageGuardMut, PublishedPage};
