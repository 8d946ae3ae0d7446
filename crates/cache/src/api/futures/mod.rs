//! Futures: operations of tasks that do not block the thread.
//!
//! The futures work in any executor: they require no runtime, and block no thread. A hit is ready
//! at the first poll. The engine reads missing pages, and the task is woken when they are resident.
//! Threads of the cache make other calls that wait (`base/errand.rs`).
//!
//! A future owns the buffer that it uses, and returns it with the result. So a future can be
//! dropped at any time. A read that was started then continues, and fills the cache. A write or a
//! sync that was passed to a thread of the cache is completed too.

mod call;
mod pin;
mod read;
mod sync;
mod write;

pub use self::pin::PinPage;
pub use self::read::{ReadAt, ReadMany};
pub use self::sync::SyncData;
pub use self::write::{Append, WriteAt};
