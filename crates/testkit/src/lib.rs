//! The shared parts of Pagewell's tests: seeds, contents, bounded waits, histories and a naive
//! model.
//!
//! This crate depends on none of the other crates. So any of them can use it, and the model cannot
//! share a mistake with the code that it checks.
//!
//! | module | what |
//! |---|---|
//! | [`mod@alone`] | tests that need a process of their own |
//! | [`fork`] | children made by `fork` |
//! | [`rng`] | a small deterministic generator |
//! | [`seed`] | the seed of a test: printed when the test fails, taken from the environment to replay |
//! | [`mod@content`] | bytes from a seed; words that name their place |
//! | [`scratch`] | folders and files of a test, and whether there is room for them |
//! | [`mod@limit`] | limits of the process |
//! | [`machine`] | the processor's name, for figures |
//! | [`mod@refuse`] | system calls that are refused |
//! | [`resident`] | what the operating system has of a file in its own cache |
//! | [`skip`] | a report of tests that this machine cannot run |
//! | [`wait`] | waiting for other threads, never for longer than is reasonable |
//! | [`history`] | the steps that a user of a page cache may take, as data |
//! | [`model`] | the possible results of a read of a cached file, kept in plain vectors |

#![deny(unsafe_code)]

pub mod alone;
pub mod content;
pub mod fork;
pub mod history;
pub mod limit;
pub mod machine;
pub mod model;
pub mod refuse;
pub mod resident;
pub mod rng;
pub mod scratch;
pub mod seed;
pub mod skip;
pub mod wait;

pub use alone::alone;
pub use content::content;
pub use fork::in_child;
pub use limit::limit;
pub use refuse::{Calls, die_at, refuse};
pub use rng::Rng;
pub use rustix::process::Resource;
pub use seed::Seed;
