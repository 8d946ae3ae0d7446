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

mod doubles;
mod ends;
mod flips;
mod full;
mod holes;
mod power;
mod refusals;
mod round;
#[path = "../support/mod.rs"]
mod support;
mod ways;
