//! Page cache: files of any size in a fixed amount of memory.
//!
//! Modules, from the bottom up. Each imports only from those above it in this table
//! (`crates/testkit/tests/layers.txt`):
//!
//! | module | contents |
//! |---|---|
//! | `base` | slot and state words, value types, I/O engines, memory of the operating system |
//! | `index` | page-to-slot index; leaves; the claim, through which a slot changes |
//! | `supply` | free frames: budget reservations, eviction and its policy, reclaim |
//! | `dirty` | dirty-page tracking, write order, error reports to handles |
//! | `mapping` | per-file record (`Mapping`); removal of its pages |
//! | `writeback` | writes to the backend and syncs |
//! | `read` | hits, lookups, fills, pins, views |
//! | `write` | writes, growth, page locks, page moves |
//! | `files` | open files of a cache: open, close, flusher threads |
//! | `spaces` | the part of a cache that memory spaces use |
//! | `api` | public handles: [`Cache`], [`File`], [`OpenOptions`] |
//!
//! Each operation is a type named after it: `Filler(mapping).fill(..)`. `docs/LOCKING.md` lists the
//! locks and their order, `docs/ARCHITECTURE.md` describes the path of a read.

#![deny(unsafe_code)]

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

pub use api::builder::Builder;
pub use api::cache::{Cache, Info, Quiet, Stats, companion_or_else};
pub use api::file::{File, FileStats};
pub use api::futures::{Append, PinPage, ReadAt, ReadMany, SyncData, WriteAt};
pub use api::options::OpenOptions;
pub use base::error::{Error, ErrorKind, Op};
pub use base::page::MAX_FILE_BYTES;
pub use base::page_hooks::{OutgoingPage, PageHooks};
pub use dirty::writes::{BeforeWrite, Writeback};
pub use index::token::{Token, TokenState};
pub use mapping::user::FileUser;
pub use read::ahead::Advice;
pub use read::many::ReadRequest;
pub use read::pinner::{OwnedPageGuard, PageGuard};
pub use read::viewer::View;
pub use spaces::frames::CacheFrames;
pub use spaces::mapped::{HeldPage, MappedFile, Spare, Tried, Wait};
pub use write::moves::PageMove;
pub use write::pin_mut::{DetachedPageGuardMut, PageGuardMut, PublishedPage};
