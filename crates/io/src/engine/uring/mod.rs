//! The io_uring engine.
//!
//! | module | contents |
//! |---|---|
//! | `ring` | one ring and the jobs in it; why the kernel never uses freed memory |
//! | `pool` | rings for later submission contexts, and threads for the backends' calls |
//! | `lane` | submission context: a thread that waits, and enters its own ring |
//! | `thread` | the thread with a ring for requests without a waiter |
//! | `engine` | [`UringEngine`] |

mod engine;
mod lane;
mod pool;
mod ring;
mod thread;

pub use self::engine::UringEngine;
