//! Requests that do not wait, and queues that their completions come from.
//!
//! - Owns: `pw_queue`, `pw_completion`.
//! - Calls: `error`, `entry`, `handles`, `arguments`, `file`, `pins`.
//! - Promises: each request that was taken has one callback, in a call of `pw_queue_run`, with no lock held. A buffer is the library's from the submission until
//!   the callback begins.
//!
//! # What
//!
//! A request is a future of the library, with all that it owns, and a queue is its executor, of which the program is the thread: a waker puts its request
//! on the queue's list, and makes the queue's descriptor readable; `pw_queue_run` polls what is on the list. So callbacks run where the program wants them, and the
//! library has no thread more.
//!
//! | module | what |
//! |---|---|
//! | `executor` | requests, from their futures to their completions, and the list of those that are to be polled |
//! | `handle` | queues, as programs have them |
//! | `submit` | requests of each kind |
//!
//! A module calls modules above it in this table only.
//!
//! # Protocol
//!
//! 1. A submission polls its future once, so that the storage begins. A hit is ready then.
//! 2. A waker sets `is_listed`; the first to do so puts the request on the list.
//! 3. A run takes a request off the list, clears `is_listed`, polls under the request's own mutex, and, if it is ready, takes it out of the queue's table: one run
//!    can do that. Then it calls the callback.
//! 4. A cancellation drops the future under the request's mutex, and lists it. Who has polled it to the end before wins.

mod executor;
mod handle;
mod submit;

pub use self::executor::{pw_callback, pw_completion};
pub use self::handle::*;
pub use self::submit::*;
