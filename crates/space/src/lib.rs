//! Memory spaces: copy-on-write memory that can be forked at one point in time and moved between memory nodes while it
//! is in use.
//!
//! | module | what |
//! |---|---|
//! | `space` | what users hold: [`Spaces`], [`Space`] |
//! | `read`, `write`, `atomic`, `pin` | accesses, and the faults that they take |
//! | `map`, `fork` | changes of areas; forks |
//! | `pte`, `pmd`, `geometry`, `counts`, `cow` | the words of tables, directories and records, and the decisions (pure) |
//! | `claim`, `table`, `table_stock`, `directory` | the one way to change an entry; tables with several users; their frames; the array of tables |
//! | `area`, `family`, `tree` | areas; from a page to the areas that may map it |
//! | `map_file`, `file`, `file_access`, `cut` | areas that show files: mapping, what they know, reads and writes, files that get shorter |
//! | `rmap`, `cache` | from a page of a file to what shows it; the spaces of a cache |
//! | `policy`, `room` | on which nodes pages are to be; room for them where making it takes waiting |
//! | `migrate`, `migrate_file`, `find`, `moving`, `walk`, `compact` | moving pages to other frames; making room for large blocks |
//! | `age` | which pages are in use |
//! | `verify` | whether everything adds up |
//! | `frames`, `shared`, `raw` | the frames of pages; what spaces share; the unsafe steps |
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
#[cfg(not(loom))]
pub use api::cache::CacheSpaces;
pub use api::handles::{DEFAULT_SPACE_BYTES, MAX_SPACE_BYTES, Space, Spaces};
#[cfg(not(loom))]
pub use api::rmap::MappedAt;
pub use areas::maps::Sharing;
pub use areas::policy::Policy;
pub use change::fork::ForkMode;
pub use change::options::{AreaInfo, FileInfo, MapOptions};
pub use error::{Error, ErrorKind, Op};
pub use motion::report::{Engine, Migrated, NotMoved};
pub use supply::source::FrameSource;
pub use words::counts::MAX_MIGRATION_ENTRIES;
pub use words::pte::Protection;
