//! Tests of the rooms below that need files.

mod reclaim;
