//! The free frames of a pool, and freeing.
//!
//! Guarantees: every frame is allocated, or in a free block on one list, with its lock bit set.

mod account;
mod buddy;
mod free_lists;
mod front;

pub use self::account::{FreeBlocks, PoolStats};
pub(crate) use self::buddy::Buddy;
pub(crate) use self::free_lists::FreeLists;
pub(crate) use self::front::{Class, Front};
