//! What the tests of Pagewell share: seeds, contents, bounded waits, histories and a naive model.
//!
//! Depends on none of the other crates, so that any of them can use it, and so that the model cannot
//! share a mistake with what it is compared to.
//!
//! | module | what |
//! |---|---|
//! | [`rng`] | a small deterministic generator |
//! | [`seed`] | the seed of a test: printed when the test fails, taken from the environment to replay |
//! | [`mod@content`] | bytes from a seed; words that say where they belong |
//! | [`scratch`] | folders and files of a test, and whether there is room for them |
//! | [`skip`] | what is not tested on this machine is told |
//! | [`wait`] | waiting for other threads, never for longer than is reasonable |
//! | [`history`] | what a user of a page cache may do, step by step, as data |
//! | [`model`] | what a read of a cached file may return, kept in plain vectors |

#![forbid(unsafe_code)]

pub mod content;
pub mod history;
pub mod model;
pub mod rng;
pub mod scratch;
pub mod seed;
pub mod skip;
pub mod wait;

pub use content::content;
pub use rng::Rng;
pub use seed::Seed;
