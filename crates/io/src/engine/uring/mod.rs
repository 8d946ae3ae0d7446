//! The io_uring engine. Each waiting thread enters its own ring (`lane`); one more thread has a
//! ring for requests without a waiter (`thread`).

mod engine;
mod lane;
mod pool;
mod ring;
mod thread;

pub use self::engine::UringEngine;
