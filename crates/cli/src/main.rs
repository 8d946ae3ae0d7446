//! The `pagewell` command: what the page cache does on this machine.
//!
//! The rooms, from the bottom up; each calls only those above it in this table, as far as it needs them:
//!
//! | room | what lives there |
//! |---|---|
//! | `failure`, `size`, `machine` | why a run stopped; byte counts as people write them; processors and memory of this process |
//! | `copies` | how bytes are copied in this process |
//! | `cgroup` | control groups that bound the memory of a process |
//! | `interrupt` | signals that end a run |
//! | `output`, `child`, `progress` | standard output that may be a closed pipe; the same program again, as a process that ends with this one; the progress bar |
//! | `info` | `pagewell info` |
//! | `bench` | `pagewell bench`: data, crews of workers, plan, cases, report |
//! | `crash_test` | `pagewell crash-test`: writers that are killed, simulated losses of power |
//! | `trace` | traces of requests that other tools have written |
//! | `what_if` | `pagewell what-if`: how often caches would hit under the requests of a trace |
//! | `replay` | `pagewell replay`: the requests of a trace on a real file |
//! | `args` | the command line, and what of it is bad usage (exit code 2) |
//!
//! `unsafe` lives in few files: `bench/crew/shared.rs` (memory shared by worker processes), `bench/data/mapped.rs`
//! (mappings of files), `bench/cases/tree/peers/lmdb.rs` (the same), `bench/cases/fork/process.rs` `info/io_uring.rs` and `replay/resident.rs`
//! (system calls), `interrupt.rs` (whether a signal is ignored), `replay/engines/mapped.rs` (a mapping), and in `bench/cases/alloc`
//! those of the allocators whose interface asks for it, and of blocks that threads pass on as numbers.

#![deny(unsafe_code)]

mod args;
mod bench;
mod cgroup;
mod child;
mod copies;
mod crash_test;
mod failure;
mod info;
mod interrupt;
mod machine;
mod output;
mod progress;
mod replay;
mod size;
mod trace;
mod what_if;

use std::process::ExitCode;

use crate::args::Task;
use crate::failure::Failure;

fn main() -> ExitCode {
    let outcome = match args::parse() {
        Task::Screen(format, seconds) => bench::screen(format, seconds, &info::line()),
        Task::Bench(settings) => bench::run(&settings),
        Task::BenchWorker(args) => bench::worker_process(&args),
        Task::BenchEngine(args) => bench::engine_process(&args),
        Task::WhatIf(settings) => what_if::run(&settings),
        Task::Replay(settings) => replay::run(&settings),
        Task::Info(format) => info::run(format),
        Task::CrashTest(settings) => crash_test::run(&settings),
        Task::CrashTestWriter(args) => crash_test::writer_process(&args),
    };
    match outcome {
        // A reader that has seen enough (`pagewell bench | head`) is no error.
        Ok(()) | Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(Failure::Run(message)) => {
            output::complain(&format!("pagewell: {message}"));
            ExitCode::FAILURE
        }
        Err(Failure::Interrupted) => {
            output::complain("pagewell: interrupted");
            ExitCode::from(interrupt::EXIT_STATUS)
        }
    }
}
