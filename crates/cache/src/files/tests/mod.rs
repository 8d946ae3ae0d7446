//! Tests of lower layers that need files.

mod contended;
mod reclaim;
