//! `pagewell bench`: the cache's fast paths beside what they replace.
//!
//! The rooms, from the bottom up. A room may call those above it in this table, and no other:
//!
//! | room | what it owns |
//! |---|---|
//! | `data`, `crew`, `plan` | what is read and written; the workers, and the timed loop; what is measured. None of the three calls another |
//! | `cases` | the benchmarks: engines, stages, checks |
//! | `report` | figures, ratios, tables, JSON |
//! | `screen` | which cells the bare command shows, and how |
//! | `run` | a run from its plan to its report, or to the screen |
//!
//! The life of a run: [`plan`] says which cells are measured. [`cases`] makes what the engines of a benchmark need ([`data`]), and
//! hands a [`crew`] of pinned workers one lane for each engine. The crew runs the lanes of a cell in turns, round by round.
//! [`report`] compares the speeds of the same round, and prints them.
//!
//! Every figure is of work that was checked: what was read, written, counted or freed is compared with what it must be, and a cell
//! that is wrong ends the run.

mod cases;
mod crew;
mod data;
mod plan;
mod report;
mod run;
mod screen;

pub(crate) use self::cases::EngineArgs;
pub(crate) use self::crew::WorkerArgs;
pub(crate) use self::plan::{
    Bench, Case, DEFAULT_PAGE_SIZE, DEFAULT_ROUNDS, Settings, default_seconds,
};
pub(crate) use self::run::{engine_process, run, screen, worker_process};
