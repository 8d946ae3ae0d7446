//! The io_uring engine. A thread that waits enters its own ring (`lane`). The engine's thread has a
//! ring for requests without a waiter (`thread`).

mod engine;
mod lane;
mod pool;
mod ring;
mod thread;

pub use self::engine::UringEngine;
