//! Futures: operations of tasks that do not block the thread.
//!
//! They work in any executor: no runtime is required, and no thread is blocked. A hit is ready at
//! the first poll. The engine reads missing pages and wakes the task when they are resident; other
//! operations that wait are made by threads of the cache (`base/errand.rs`).
//!
//! A future owns everything that the backend or a thread uses: it takes a buffer, and returns it.
//! So it can be dropped at any time. A read that was started continues, for the cache; a write or a
//! sync that a thread of the cache has started is completed nevertheless.

mod call;
mod pin;
mod read;
mod sync;
mod write;

pub use self::pin::PinPage;
pub use self::read::{ReadAt, ReadMany};
pub use self::sync::SyncData;
pub use self::write::{Append, WriteAt};
