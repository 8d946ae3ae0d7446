//! The engine that gives transfers to the kernel by io_uring.
//!
//! | module | what |
//! |---|---|
//! | `ring` | one ring, and the jobs that the kernel has; the argument why their memory is there |
//! | `pool` | rings for the next lanes, and threads that make the storages' calls |
//! | `lane` | a thread that waits, and enters a ring of its own |
//! | `thread` | the thread that has a ring for what nobody waits for |
//! | `engine` | [`UringEngine`] |

mod engine;
mod lane;
mod pool;
mod ring;
mod thread;

pub use self::engine::UringEngine;
