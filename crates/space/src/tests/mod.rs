//! Tests of rooms together, by what only this crate can see. Tests of one file are in that file, those by the public API in
//! `tests/` beside `src/`.

mod areas;
mod compact;
mod find;
mod tables;
