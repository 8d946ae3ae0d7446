//! Tests of the rooms below that need files.

mod contended;
mod reclaim;
