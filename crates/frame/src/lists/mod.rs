//! The free frames of a pool: the lists that they are on, and freeing.
//!
//! - Owns: the nodes with their buddy allocators and depots, the front caches of threads, and which of these lists a free block is
//!   on ([`FreeLists`]).
//! - Calls: `words`, `count`, `memory`, `records`.
//! - Promises: every frame is on one list, or allocated. A frame on a list has the lock bit, so a late `try_get` fails.
//!
//! | file | what |
//! |---|---|
//! | `depot` | single frames of a node that are passed on unmerged |
//! | `buddy` | the allocator of one node |
//! | `front` | the front caches before the nodes |
//! | `node` | a node: its frames, its allocator behind a lock, where to look next |
//! | `free_lists` | [`FreeLists`]: all of these together, and freeing |
//! | `account` | where all frames are, and whether everything adds up |

mod account;
mod buddy;
mod depot;
mod free_lists;
mod front;
mod node;

pub use self::account::{FreeBlocks, PoolStats};
pub(crate) use self::buddy::Buddy;
pub(crate) use self::free_lists::FreeLists;
pub(crate) use self::front::{Class, Front};
