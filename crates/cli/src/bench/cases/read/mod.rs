//! `bench read`: ways to get bytes of a file that is in memory.
//!
//! One file for each engine. All stand in the same loop, with the same positions, buffers and checks (`reader`). `stage` opens the files in
//! every engine, and compares what each gives with `pread`, before anything is measured.

mod engines;
mod mmap;
mod optimistic;
mod pread;
mod reader;
mod referenced;
mod stage;
mod view;

pub(in crate::bench) use self::engines::{ENGINES, LEGEND, RATIOS};
pub(in crate::bench) use self::stage::Stage;
