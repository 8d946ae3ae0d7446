//! Calls that do not wait: futures.
//!
//! They work in any executor: no runtime is chosen, and no thread is blocked. A hit is ready at the first poll. What is missing is read by the engine, which wakes
//! the task when it is there; what else takes waiting is done by threads of the cache (`base/errand.rs`).
//!
//! A future owns what the storage or a thread uses: a buffer goes in and comes back. So it can be dropped at any time. A read that was begun
//! goes on, for the cache; a write or a sync that a thread of the cache has begun is done all the same.

mod call;
mod pin;
mod read;
mod sync;
mod write;

pub use self::pin::PinPage;
pub use self::read::{ReadAt, ReadMany};
pub use self::sync::SyncData;
pub use self::write::{Append, WriteAt};
