//! The lists that free frames are on.

mod account;
mod buddy;
mod depot;
mod free;
mod front;
mod poison;

pub use self::account::{FreeBlocks, PoolStats};
pub(crate) use self::buddy::Buddy;
pub(crate) use self::front::{Class, Front, FrontCaches, front_caches};
pub use self::poison::Poisoned;
