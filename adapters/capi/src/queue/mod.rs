//! Asynchronous requests, and queues of their completions.
//!
//! - Owns: `pw_queue`, `pw_completion`.
//! - Calls: `error`, `entry`, `handles`, `arguments`, `file`, `pins`.
//! - Promises: each accepted request has one callback, in a call of `pw_queue_run`, with no lock
//!   held. The library uses a read's buffer until the callback begins, and copies the bytes of a
//!   write or append during the submission.
//!
//! # Concepts
//!
//! A queue is the executor of the library's futures, on threads of the program. A waker puts its
//! request on the queue's list and makes the queue's descriptor readable, and `pw_queue_run` polls
//! the requests on the list. So callbacks run on threads that the program chooses.
//!
//! | module | contents |
//! |---|---|
//! | `executor` | requests, from future to completion, and the list of those to be polled |
//! | `handle` | handles of queues, and the calls with them |
//! | `submit` | requests of each kind |
//!
//! # Protocol
//!
//! 1. A submission polls its future once: a hit is then ready, else the backend request starts.
//! 2. A waker sets `is_listed`. The first to set it puts the request on the list.
//! 3. A run takes a request off the list, clears `is_listed`, and polls it under its own mutex. If
//!    the request is ready, the run takes the outcome, as only one run can, removes the request
//!    from the queue's table, and calls the callback. A panic of the future is an outcome, too.
//! 4. A cancellation takes the future under the request's mutex, releases the mutex, and drops the
//!    future, which counts as a use of the file; then it stores the outcome, and lists the request.
//!    A cancellation fails if another thread cancels the request, or the request has an outcome.
//! 5. A close requires that the table is empty, and empties the list: a waker may have listed a
//!    request shortly before its callback was called. Afterwards no waker lists a request.

mod executor;
mod handle;
mod submit;

pub use self::executor::{pw_callback, pw_completion};
pub use self::handle::*;
pub use self::submit::*;
