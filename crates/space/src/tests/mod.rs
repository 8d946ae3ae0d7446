//! Tests of several modules that need crate-private access. Tests of one file are in that file,
//! those of the public API in `tests/` beside `src/`.

mod areas;
mod find;
mod reclaim;
mod tables;
