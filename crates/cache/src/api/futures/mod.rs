//! Futures: operations of tasks that do not block the thread.
//!
//! The futures work in any executor. The engine reads missing pages, and threads of the cache make
//! other calls that wait ([`pagewell_io::pools::Errand`]).
//!
//! A future owns its buffer, so it can be dropped at any time. A started read then fills the cache,
//! and a write or sync that was passed to a thread of the cache is completed.

mod call;
mod pin;
mod read;
mod sync;
mod write;

pub use self::pin::PinPage;
pub use self::read::{ReadAt, ReadMany};
pub use self::sync::SyncData;
pub use self::write::{Append, WriteAt};
