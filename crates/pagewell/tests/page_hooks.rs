//! Hooks on the bytes of pages: checksums and ciphers between the cache and the storage.
//!
//! | module | what |
//! |---|---|
//! | `doubles` | hooks for tests, and files of them |
//! | `round` | what is read is what was written: all sizes, random histories, reopened, on files of the system |
//! | `ends` | what comes after the end of a file, and does not come back |
//! | `holes` | pages that nobody has written |
//! | `refusals` | hooks that fail, panic, or use the cache |
//! | `flips` | bits that flip in the storage |
//! | `full` | memory full of dirty pages |
//! | `ways` | all ways in which pages are read: batches, futures, read-ahead, views, memory spaces |
//! | `power` | random histories with losses of power |

#[path = "page_hooks/doubles.rs"]
mod doubles;
#[path = "page_hooks/ends.rs"]
mod ends;
#[path = "page_hooks/flips.rs"]
mod flips;
#[path = "page_hooks/full.rs"]
mod full;
#[path = "page_hooks/holes.rs"]
mod holes;
#[path = "page_hooks/power.rs"]
mod power;
#[path = "page_hooks/refusals.rs"]
mod refusals;
#[path = "page_hooks/round.rs"]
mod round;
mod support;
#[path = "page_hooks/ways.rs"]
mod ways;
