//! Which page goes next: the eviction policy, decided with metadata alone.

#![forbid(unsafe_code)]

mod notes;
mod places;
mod policy;
mod rings;
mod rules;
mod words;

pub use notes::Notes;
pub use policy::{Content, Pages, Policy, Stays};
pub use words::Ghost;

#[cfg(test)]
mod tests;
