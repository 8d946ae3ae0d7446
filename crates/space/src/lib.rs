//! Memory spaces: copy-on-write memory that can be forked at one point in time and moved between
//! NUMA nodes while it is in use.
//!
//! Each module calls only modules below it in this table, and documents what it promises.
//!
//! | module | contents |
//! |---|---|
//! | `change` | mapping, unmapping, protecting and moving areas; forks; migrations |
//! | `access` | reads, writes, pins, views and their faults; mapped files |
//! | `mm` | state of a space, and of all spaces of a pool; their handles: [`Spaces`], [`Space`] |
//! | `motion` | moves of isolated pages; compaction |
//! | `areas` | areas, policies, areas that map a file; truncation of files |
//! | `tables` | page tables, which several spaces may share |
//! | `pages` | frames of pages, counts of their entries; search for the areas that may map a page |
//! | `supply` | the pool and its source of frames; stoppable writers; most unsafe code |
//! | `words` | words of tables, directories and metadata; the claim, which alone changes an entry |
//! | `error` | errors |
//!
//! An operation is a method of the state that it uses, in the file named after the operation: of
//! [`Space`], of `Mm` (one space) or of `Supply` (frames of all spaces). `tests` and `models` may
//! use all.
//!
//! `docs/ARCHITECTURE.md` describes faults and migrations. `docs/LOCKING.md` describes the locks,
//! by Linux's names: the *structure lock* of a space is its mmap_lock, the *unsharing lock* its
//! table_lock, the lock of a *family* an anon_vma lock, and the claim of an entry a PTE claim.

#![deny(unsafe_code)]

mod access;
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
#[cfg(test)]
mod tests;
mod words;

pub use access::pin::{OwnedPin, Pin};
pub use areas::file::Sharing;
pub use areas::options::{AreaInfo, MapOptions, Policy};
pub use change::fork::ForkMode;
pub use error::{Error, ErrorKind, Op};
pub use mm::space::{CacheSpaces, DEFAULT_SPACE_BYTES, MAX_SPACE_BYTES, Space, Spaces};
pub use motion::report::{Engine, Migrated, NotMoved};
pub use supply::source::FrameSource;
pub use words::pte::Protection;
