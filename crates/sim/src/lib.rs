//! Caches that hold nothing, to count what would have been hits: Pagewell's eviction policy, and those that it is compared with.
//!
//! [`hits`] runs requests through a cache of one size under one [`Policy`]. For Pagewell's own that is the code that the page cache
//! drives, driven in the same way: in batches, with notes of arrivals, and ghosts in the slots of pages that are gone.
//!
//! | module | what |
//! |---|---|
//! | `lists` | lists of pages |
//! | `numbers` | sets of numbers |
//! | `lru`, `clock`, `s3_fifo`, `arc` | the policies of the papers |
//! | `libraries` | the crates that people use |
//! | `belady` | the limit |
//! | `pagewell` | ours |
//! | `run` | names, and running requests through one of them |
//! | [`workload`] | requests made up by rule |

#![forbid(unsafe_code)]

mod arc;
mod belady;
mod cache;
mod clock;
mod libraries;
mod lists;
mod lru;
mod numbers;
mod pagewell;
mod run;
mod s3_fifo;
pub mod workload;

pub use run::{Policy, UnknownPolicy, hits};

#[cfg(test)]
mod tests;
