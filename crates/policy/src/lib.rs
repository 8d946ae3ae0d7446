//! Policies, which decide from metadata alone: eviction, readahead, amount of writeback.
//!
//! # Eviction
//!
//! The page cache drives this code, and so does the simulator, which has no page contents. The
//! input is the frames, the accessed bits of their pages, and the time and queue of each returning
//! page's eviction. A hit only sets the page's accessed bit if it is clear. A fill leaves a
//! [note](Notes) for its frame. A thread that needs frames calls [`Policy::evict`] under the
//! cache's lock.
//!
//! | module | content |
//! |---|---|
//! | `words` | value types: ghosts, notes, entries, and the state of a frame |
//! | `notes` | lock-free notes from the threads that fill frames |
//! | `rings` | queues of entries, in chunks |
//! | `places` | queue position of each frame, even after its page has moved |
//! | `rules` | eviction and admission decisions, without side effects |
//! | `pages` | the trait that a cache implements |
//! | `run` | state kept from pass to pass; a pass, from new pages to evictions |
//!
//! # Readahead and writeback
//!
//! | module | content |
//! |---|---|
//! | [`pace`] | how much is written between two syncs |
//! | [`readahead`] | the pages that a miss reads, and those to submit before they are needed |

#![forbid(unsafe_code)]

mod notes;
pub mod pace;
mod pages;
mod places;
pub mod readahead;
mod rings;
mod rules;
mod run;
mod words;

pub use notes::Notes;
pub use pages::{Content, Pages, Stays};
pub use run::Policy;
pub use words::Ghost;

#[cfg(test)]
mod tests;
