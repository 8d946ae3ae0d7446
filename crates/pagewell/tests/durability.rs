//! What is promised of bytes that were written: through faults of the storage, at the memory limit, among many
//! threads, and over losses of power.
//!
//! | module | what |
//! |---|---|
//! | `storage` | backends that fail on demand, and plain bytes to compare with |
//! | `faults` | each call of the storage fails, in each way |
//! | `late` | each call of the storage is late, or falls short |
//! | `behind` | the file is truncated, replaced or removed behind the cache |
//! | `panics` | hooks and storages that panic |
//! | `commits` | syncs that threads share |
//! | `depth` | many requests on their way at once |
//! | `checkpoints` | what is not durable; syncs of a part, and syncs that wait |
//! | `regressions` | what was once wrong |
//! | `hooks` | log sequence numbers, and hooks that refuse |
//! | `guards` | pages that are pinned to be changed: who waits for them, and who would wait for itself |
//! | `limits` | everything dirty at the memory limit |
//! | `groups` | barriers: groups of pages that reach the storage in order |
//! | `histories` | random histories with losses of power, of `pagewell_crash` |
//! | `stress` | writers, readers, a flusher and a truncater on real files |

#[path = "durability/behind.rs"]
mod behind;
#[path = "durability/checkpoints.rs"]
mod checkpoints;
#[path = "durability/commits.rs"]
mod commits;
#[path = "durability/depth.rs"]
mod depth;
#[path = "durability/faults.rs"]
mod faults;
#[path = "durability/groups.rs"]
mod groups;
#[path = "durability/guards.rs"]
mod guards;
#[path = "durability/histories.rs"]
mod histories;
#[path = "durability/hooks.rs"]
mod hooks;
#[path = "durability/late.rs"]
mod late;
#[path = "durability/limits.rs"]
mod limits;
#[path = "durability/panics.rs"]
mod panics;
#[path = "durability/regressions.rs"]
mod regressions;
#[path = "durability/storage.rs"]
mod storage;
#[path = "durability/stress.rs"]
mod stress;
mod support;
