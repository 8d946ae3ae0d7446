//! `bench read`: ways to get bytes of a file that is in memory.
//!
//! One file for each engine. All stand in the same loop, with the same positions, buffers and checks (`reader`). `stage` opens the files in
//! every engine, and compares what each gives with `pread`, before anything is measured. `miss` has what is measured in caches that are smaller than the
//! file.

mod asynchronous;
mod batch;
mod engines;
mod miss;
mod mmap;
mod open;
mod optimistic;
mod pread;
mod reader;
mod referenced;
mod stage;
mod view;

pub(in crate::bench) use self::engines::{ENGINES, LEGEND, MISS_ENGINES, MISS_RATIOS, RATIOS};
pub(in crate::bench) use self::stage::Stage;
