//! Memory spaces: copy-on-write memory that can be forked at one point in time and moved between memory nodes while it
//! is in use.
//!
//! The rooms, from the top; each calls those below it, and none above. What a room owns and promises is at the top of its `mod.rs`.
//!
//! | room | what |
//! |---|---|
//! | `api` | what users hold and call: [`Spaces`], [`Space`] |
//! | `change` | mapping, unmapping, protecting and moving areas; forks |
//! | `access` | reads, writes, pins, views, and the faults that they take; accesses of mapped files |
//! | `mm` | the state of a space, and of all spaces of a pool |
//! | `motion` | migration and compaction |
//! | `areas` | areas, policies, what shows a file; cuts of files |
//! | `tables` | page tables, which several spaces may use |
//! | `pages` | the frames of pages, counted by their entries; from a page to the areas that may map it |
//! | `supply` | the pool and who makes room in it; the writers that may be stopped; the unsafe steps |
//! | `words` | the words of tables, directories and records, and the one way to change an entry |
//! | `error` | what can go wrong |
//!
//! What is done in a room is a method of a type of its own, which is no more than references to the parts that it needs: made where it
//! is used (`Tables::of(&supply).copy(table)`), and handed over by value. So a call says which room it goes to.
//!
//! `tests` and `models` (loom) are beside them, and may use all.
//!
//! The life of a fault and of a migration is in `docs/ARCHITECTURE.md`, the locks are in `docs/LOCKING.md`.

#![deny(unsafe_code)]
// The models drive the protocols directly; what only users call is left out of them.
#![cfg_attr(loom, allow(dead_code))]

mod access;
mod api;
mod areas;
mod change;
mod error;
mod mm;
#[cfg(all(test, loom))]
mod models;
mod motion;
mod pages;
mod supply;
mod tables;
#[cfg(all(test, not(loom)))]
mod tests;
mod words;

pub use access::pin::{OwnedPin, Pin};
pub use access::view::OfSpace;
#[cfg(not(loom))]
pub use api::cache::CacheSpaces;
pub use api::handles::{DEFAULT_SPACE_BYTES, MAX_SPACE_BYTES, Space, Spaces};
pub use areas::maps::Sharing;
pub use areas::policy::Policy;
pub use change::fork::ForkMode;
pub use change::options::{AreaInfo, MapOptions};
pub use error::{Error, ErrorKind, Op};
pub use motion::report::{Engine, Migrated, NotMoved};
pub use supply::source::FrameSource;
pub use words::pte::Protection;
