//! What is measured: settings, cases, cells, and the stages that share a file.
//!
//! A *cell* is one row of a table: a case with a block size, a file size and a number of workers. All engines are measured in each
//! cell. A *stage* is the cells that read or write the same file, so that files and caches are made once.
//!
//! - **Owns** the names of benchmarks and cases, which are those of the command line and of the JSON format; the defaults; what fits into the machine.
//! - **May call** nothing else of the benchmark.
//! - **Promises** that a plan follows from settings and limits alone: it measures nothing, and makes no file. What is left out, or made smaller, is in its notes.

mod case;
mod cell;
mod planned;
mod settings;

pub(crate) use self::case::{Bench, Case};
pub(in crate::bench) use self::cell::{Cell, Stage, part_of};
pub(in crate::bench) use self::planned::{Limits, MOST_ALLOC_THREADS, Plan};
pub(crate) use self::settings::{DEFAULT_PAGE_SIZE, DEFAULT_ROUNDS, Settings, default_seconds};
