//! The `pagewell` command: what the page cache does on this machine.
//!
//! The map:
//!
//! | module    | what lives there                                                        |
//! |-----------|-------------------------------------------------------------------------|
//! | `args`    | the command line, and what of it is bad usage (exit code 2)             |
//! | `failure` | why a run stopped, and the exit code that it gives                      |
//! | `output`  | standard output that may be a closed pipe                               |
//! | `size`    | byte counts as people write them                                        |
//! | `machine` | processors that this process may use, memory that it may take           |
//! | `info`    | `pagewell info`                                                         |
//! | `bench`   | `pagewell bench`: plan, data, engines, crews of workers, report         |
//! | `crash_test` | `pagewell crash-test`: writers that are killed, simulated losses of power |
//! | `child`   | the same program again, as a process that ends with this one            |
//! | `progress` | the progress bar                                                       |
//!
//! `unsafe` lives in few files: `bench/crew/shared.rs` (memory shared by worker
//! processes), `bench/data/mapped.rs` (mappings of files), `info/io_uring.rs`
//! (one system call), and in `bench/alloc` those of the allocators whose
//! interface asks for it, and of blocks that threads pass on as numbers.

#![deny(unsafe_code)]

mod args;
mod bench;
mod child;
mod copies;
mod crash_test;
mod failure;
mod info;
mod machine;
mod output;
mod progress;
mod size;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};
use crate::failure::Failure;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        None => bench::run(&args::default_bench()),
        Some(Command::Bench(args)) => match args.settings() {
            Ok(settings) => bench::run(&settings),
            Err(usage) => usage.exit(),
        },
        Some(Command::Info(args)) => info::run(args.format),
        Some(Command::BenchWorker(args)) => bench::worker_process(&args),
        Some(Command::CrashTest(args)) => match args.settings() {
            Ok(settings) => crash_test::run(&settings),
            Err(usage) => usage.exit(),
        },
        Some(Command::CrashTestWriter(args)) => crash_test::writer_process(&args),
    };
    match outcome {
        // A reader that has seen enough (`pagewell bench | head`) is no error.
        Ok(()) | Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(Failure::Run(message)) => {
            output::complain(&format!("pagewell: {message}"));
            ExitCode::FAILURE
        }
    }
}
