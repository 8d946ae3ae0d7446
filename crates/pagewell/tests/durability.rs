//! What is promised of bytes that were written: through faults of the storage, at the memory limit, among many
//! threads, and over losses of power.
//!
//! | module | what |
//! |---|---|
//! | `storage` | backends that fail on demand, and plain bytes to compare with |
//! | `faults` | each call of the storage fails, in each way |
//! | `regressions` | what was once wrong |
//! | `hooks` | log sequence numbers, and hooks that refuse |
//! | `limits` | everything dirty at the memory limit |
//! | `groups` | barriers: groups of pages that reach the storage in order |
//! | `histories` | random histories with losses of power against plain byte vectors, with shrinking |
//! | `stress` | writers, readers, a flusher and a truncater on real files |

#[path = "durability/faults.rs"]
mod faults;
#[path = "durability/groups.rs"]
mod groups;
#[path = "durability/histories.rs"]
mod histories;
#[path = "durability/hooks.rs"]
mod hooks;
#[path = "durability/limits.rs"]
mod limits;
#[path = "durability/regressions.rs"]
mod regressions;
#[path = "durability/storage.rs"]
mod storage;
#[path = "durability/stress.rs"]
mod stress;
mod support;
