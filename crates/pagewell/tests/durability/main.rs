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
//! | `checkpoints` | what is not durable; syncs of a part |
//! | `regressions` | what was once wrong |
//! | `hooks` | log sequence numbers, and hooks that refuse |
//! | `guards` | pages that are pinned to be changed: who waits for them, and who would wait for itself |
//! | `limits` | everything dirty at the memory limit |
//! | `histories` | random histories with losses of power, of `pagewell_crash` |
//! | `stress` | writers, readers, a flusher and a truncater on real files |

mod behind;
mod checkpoints;
mod commits;
mod depth;
mod faults;
mod guards;
mod histories;
mod hooks;
mod late;
mod limits;
mod panics;
mod regressions;
mod storage;
mod stress;
#[path = "../support/mod.rs"]
mod support;
