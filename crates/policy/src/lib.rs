//! Eviction policy: chooses the pages to evict from metadata alone.
//!
//! The page cache drives this code; so does the simulator, with pages that do not exist. The policy
//! knows frames, whether their pages were accessed, and how long a returning page was absent. A hit
//! calls nothing here: it sets the page's accessed bit if that is clear. A thread that fills a
//! frame leaves a [note](Notes) for it. A thread that needs frames calls [`Policy::evict`], under
//! its own lock.
//!
//! | module | content |
//! |---|---|
//! | `words` | value types: ghosts, notes, entries, and the state of a frame |
//! | `notes` | lock-free notes from the threads that fill frames |
//! | `rings` | queues of entries, in chunks |
//! | `places` | queue position of each frame, also after its page has moved |
//! | `rules` | eviction and admission decisions, without side effects |
//! | `pages` | the trait that a cache implements |
//! | `run` | an eviction pass, from new pages to evictions |
//! | `policy` | state kept from pass to pass |

#![forbid(unsafe_code)]

mod notes;
mod pages;
mod places;
mod policy;
mod rings;
mod rules;
mod run;
mod words;

pub use notes::Notes;
pub use pages::{Content, Pages, Stays};
pub use policy::Policy;
pub use words::Ghost;

#[cfg(test)]
mod tests;
