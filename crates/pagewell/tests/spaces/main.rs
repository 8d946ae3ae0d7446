//! Memory spaces, and files that are mapped into them, by the public interface.

mod file_histories;
mod files;
mod first;
mod nodes;
#[path = "../support/mod.rs"]
mod support;
mod views;
