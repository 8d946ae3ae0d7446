//! Crews: the workers that run the engines of a cell in turns.
//!
//! 1. Each worker has one *lane* for each engine: the engine's operation, ready
//!    to be repeated.
//! 2. All workers follow the same [`Schedule`]: in each round, each lane for one
//!    slice of time. The order of the lanes changes from round to round.
//! 3. Before each slice the workers meet at a [`Gate`], which tells them all the
//!    same start. A slice begins with a warm-up that is not counted.
//! 4. A worker that fails, or dies, abandons the gate, so that nobody waits for
//!    it.
//!
//! Nothing else happens between slices: the coordinator only watches, so that it
//! takes no processor from the workers.
//!
//! - **Owns** the clock, the workers (threads, or processes with the memory that they share), and what they have counted ([`Speeds`]).
//! - **May call** nothing else of the benchmark.
//! - **Promises** that all engines stand in the same loop, for the same time, and meet the same neighbours; that setting up and
//!   clearing away is not timed ([`Staged`]); that the first failure ends all workers and is told. It knows no engine and no case.

pub(in crate::bench) mod clock;
mod gate;
mod lane;
mod processes;
mod schedule;
mod shared;
mod speeds;
mod staged;
mod threads;
mod worker;

pub(in crate::bench) use self::lane::{Lane, Op, Timed};
pub(crate) use self::processes::WorkerArgs;
pub(in crate::bench) use self::processes::{run_processes, work_as_process};
pub(in crate::bench) use self::schedule::Schedule;
pub(in crate::bench) use self::shared::Padded;
pub(in crate::bench) use self::speeds::{Bound, Speeds};
pub(in crate::bench) use self::staged::{Staged, StagedOp};
pub(in crate::bench) use self::threads::{Watch, run_threads};
