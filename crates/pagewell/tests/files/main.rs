//! Caches and their files, by the public interface. One program: each program of tests has a copy of the library's generic code, which takes
//! seconds to make.

mod announced;
mod bad_input;
mod closing;
mod descriptors;
mod direct;
mod exports;
mod faults;
mod futures;
mod history;
mod isolation;
mod layered;
mod limits;
mod locks;
mod many;
mod model;
mod opening;
mod overlap;
mod refused;
mod scans;
mod signals;
mod sizes;
mod smoke;
#[path = "../support/mod.rs"]
mod support;
mod tokens;
mod tries;
mod views;
mod writes;
