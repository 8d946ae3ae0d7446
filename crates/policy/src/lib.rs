//! Which page goes next: the eviction policy, decided with metadata alone.
//!
//! The page cache drives this code, and so does the simulator, with pages that do not exist. It knows frames, whether their pages were
//! used, and how long pages were away that come again. A hit calls nothing here: it writes the page's mark, if that is not set.
//! Who fills a frame leaves a [note](Notes) for it; who needs frames calls [`Policy::evict`], under a lock of its own.
//!
//! | module | what |
//! |---|---|
//! | `words` | plain values: ghosts, notes, entries, and the state of a frame |
//! | `notes` | what those who fill frames say, without a lock |
//! | `rings` | queues of entries, in chunks |
//! | `places` | where each frame is, also when its page came from elsewhere |
//! | `rules` | what becomes of a page: pure decisions |
//! | `pages` | what a cache tells the policy, and does for it: the trait |
//! | `run` | the hands: a run, from arrivals to evictions |
//! | `policy` | what lasts from run to run |

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
