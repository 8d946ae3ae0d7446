//! The contract of engines, checked on each of them, over each kind of storage.

#![cfg(not(loom))]

mod backends;
mod concurrency;
mod failures;
mod lifetimes;
mod results;
#[path = "../support/mod.rs"]
mod support;
mod transfers;
