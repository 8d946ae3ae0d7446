//! The command line.
//!
//! - **Owns** the flags, their help, and what is bad usage (exit code 2).
//! - **May call** the commands for their settings, never to run them; nothing but `main` calls it.
//! - **Promises** that what it lets through can only fail at run time (exit code 1), and that a flag which would change nothing is refused.

mod bench;
mod crash_test;
mod replay;
#[cfg(test)]
mod tests;
mod values;
mod what_if;

use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand};

use self::bench::BenchArgs;
use self::crash_test::CrashTestArgs;
use self::replay::ReplayArgs;
use self::values::{Usage, parse_seconds};
use self::what_if::WhatIfArgs;
use crate::bench::{EngineArgs, Settings, WorkerArgs};
use crate::crash_test::{CrashTestSettings, WriterArgs};
use crate::output::Format;
use crate::replay::ReplaySettings;
use crate::what_if::WhatIfSettings;

/// What the command line asks for, checked.
#[derive(Debug)]
pub(crate) enum Task {
    Screen(Format, Option<Duration>),
    Bench(Box<Settings>),
    BenchWorker(WorkerArgs),
    BenchEngine(EngineArgs),
    Info(Format),
    WhatIf(Box<WhatIfSettings>),
    Replay(Box<ReplaySettings>),
    CrashTest(CrashTestSettings),
    CrashTestWriter(WriterArgs),
}

/// Reads the command line of this process, which ends here if that is bad usage, or asks for help.
pub(crate) fn parse() -> Task {
    task(Cli::parse()).unwrap_or_else(|usage| usage.exit())
}

/// Benchmarks, crash tests, simulations and information of Pagewell, a user-space page cache.
///
/// Without a command: one screen of figures, what Pagewell does on this machine beside what a program uses without it, in less than
/// 90 seconds.
#[derive(Debug, Parser)]
#[command(
    name = "pagewell",
    version,
    max_term_width = 100,
    args_conflicts_with_subcommands = true
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// How to print the screen: text for people, or one JSON object a line
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Measured seconds of each figure of the screen, over all its rounds [default: 0.2; where nothing is cached, 0.3]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    seconds: Option<Duration>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compare the cache's fast paths with what they replace, on this machine
    Bench(Box<BenchArgs>),
    /// Show how often caches of several sizes and policies would hit, under the requests of a trace
    WhatIf(Box<WhatIfArgs>),
    /// Make the requests of a trace again on a real file, through Pagewell and through what it would replace
    Replay(Box<ReplayArgs>),
    /// Show what of this machine matters to a page cache
    Info(InfoArgs),
    /// Kill writers and lose power, and check that everything that was synced is there
    CrashTest(CrashTestArgs),
    /// One worker process of `bench refcount`; its standard input is the memory that it shares
    #[command(hide = true)]
    BenchWorker(WorkerArgs),
    /// One engine of `bench tree` whose memory is bounded; its standard input says what to do
    #[command(hide = true)]
    BenchEngine(EngineArgs),
    /// The process of `crash-test kill` that writes until it is killed
    #[command(hide = true)]
    CrashTestWriter(WriterArgs),
}

#[derive(Args, Debug)]
struct InfoArgs {
    /// How to print: lines for people, or one JSON object
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// Checks what the parser alone cannot see.
fn task(cli: Cli) -> Result<Task, clap::Error> {
    Ok(match cli.command {
        None => Task::Screen(cli.format, cli.seconds),
        Some(Command::Bench(args)) => {
            let settings = args.settings().map_err(|usage| error_of("bench", usage))?;
            Task::Bench(Box::new(settings))
        }
        Some(Command::BenchWorker(args)) => Task::BenchWorker(args),
        Some(Command::BenchEngine(args)) => Task::BenchEngine(args),
        Some(Command::WhatIf(args)) => {
            let settings = args
                .settings()
                .map_err(|usage| error_of("what-if", usage))?;
            Task::WhatIf(Box::new(settings))
        }
        Some(Command::Replay(args)) => {
            let settings = args.settings().map_err(|usage| error_of("replay", usage))?;
            Task::Replay(Box::new(settings))
        }
        Some(Command::Info(args)) => Task::Info(args.format),
        Some(Command::CrashTest(args)) => {
            let settings = args.settings();
            Task::CrashTest(settings.map_err(|usage| error_of("crash-test", usage))?)
        }
        Some(Command::CrashTestWriter(args)) => Task::CrashTestWriter(args),
    })
}

/// An error of a command in the form of the parser's own.
fn error_of(command: &str, Usage { kind, message }: Usage) -> clap::Error {
    let mut cli = Cli::command();
    cli.build();
    match cli.find_subcommand_mut(command) {
        Some(command) => command.error(kind, message),
        None => cli.error(kind, message),
    }
}
