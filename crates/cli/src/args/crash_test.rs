//! The command line of `pagewell crash-test`.

use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, ValueEnum};
use pagewell_crash::Broken;

use super::values::{Usage, parse_seconds};
use crate::crash_test::{CrashTestSettings, Engine, Mode, Transfers};
use crate::output::Format;

/// Start writers and kill them, and simulate losses of power; check that everything that was synced
/// is there.
///
/// `kill` starts a process that writes to a file through the cache, kills it at a random moment, and
/// checks the file; the next process goes on with the file that was found. The operating system lives
/// on, and keeps what it was given: so this checks that whatever a sync has acknowledged was given to it,
/// that nothing is torn or foreign, and that the file can be opened again.
///
/// `simulated` runs random histories on a simulated device, of which a loss of power at a random call
/// leaves what was synced, and of the rest any part in any order, torn too.
///
/// Both do so with buffered files and with direct ones, and with every engine, in turn. What the system has not is skipped, and said.
#[derive(Args, Debug)]
pub(crate) struct CrashTestArgs {
    /// Which test to run
    #[arg(value_enum, default_value_t = What::All)]
    what: What,

    /// Where the random choices begin: decimal, or hexadecimal after 0x [default: another one each time]
    #[arg(long, value_name = "N", value_parser = parse_seed)]
    seed: Option<u64>,

    /// Stop each test after so long, even if it has done less than it should
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    seconds: Option<Duration>,

    /// How many writers are killed [default: 300]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    kills: Option<u32>,

    /// How many histories are run [default: 5000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    histories: Option<u64>,

    /// Threads of each writer [default: 1 to 4, by chance]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=16))]
    threads: Option<u8>,

    /// Where to make the file of the writers [default: the system's folder for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// How files are transferred [default: both ways, in turn]
    #[arg(long, value_enum, value_name = "HOW")]
    transfers: Option<Transfers>,

    /// What does many transfers at once [default: all engines, in turn]
    #[arg(long, value_enum, value_name = "ENGINE")]
    engine: Option<Engine>,

    /// Break something on purpose, to see the test fail
    #[arg(long = "break", value_enum, value_name = "WHAT")]
    broken: Option<Break>,

    /// How to print: a table for people, or one JSON object a line
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum What {
    /// Writers that are killed
    Kill,
    /// Losses of power of a simulated device
    Simulated,
    /// Both
    All,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Break {
    /// Syncs are acknowledged, and not done
    Sync,
    /// The write-ahead log is not synced before the pages that it is ahead of (simulated only)
    Log,
    /// The size of a direct file is set before its last block is written, which makes it longer again (simulated only)
    Size,
}

const DEFAULT_KILLS: u32 = 300;
const DEFAULT_HISTORIES: u64 = 5000;

impl CrashTestArgs {
    /// Checks what the parser alone cannot see.
    pub(crate) fn settings(self) -> Result<CrashTestSettings, Usage> {
        self.refuse_unused()?;
        Ok(CrashTestSettings {
            modes: match self.what {
                What::Kill => vec![Mode::Kill],
                What::Simulated => vec![Mode::Simulated],
                What::All => vec![Mode::Simulated, Mode::Kill],
            },
            seed: self.seed,
            limit: self.seconds,
            kills: self.kills.unwrap_or(DEFAULT_KILLS),
            histories: self.histories.unwrap_or(DEFAULT_HISTORIES),
            threads: self.threads,
            dir: self.dir,
            transfers: self.transfers,
            engine: self.engine,
            broken: match self.broken {
                None => Broken::Nothing,
                Some(Break::Sync) => Broken::Sync,
                Some(Break::Log) => Broken::Log,
                Some(Break::Size) => Broken::Size,
            },
            format: self.format,
        })
    }

    /// A flag that would change nothing was meant for something else.
    fn refuse_unused(&self) -> Result<(), Usage> {
        let of_kill = [
            ("--kills", self.kills.is_some()),
            ("--threads", self.threads.is_some()),
            ("--dir", self.dir.is_some()),
        ];
        let of_simulated = [
            ("--histories", self.histories.is_some()),
            ("--break log", self.broken == Some(Break::Log)),
            ("--break size", self.broken == Some(Break::Size)),
        ];
        if self.broken == Some(Break::Size) && self.transfers == Some(Transfers::Buffered) {
            return Err(Usage::new(
                ErrorKind::ArgumentConflict,
                "--break size is of no use to buffered files".to_owned(),
            ));
        }
        let (name, unused) = match self.what {
            What::All => return Ok(()),
            What::Kill => ("kill", &of_simulated[..]),
            What::Simulated => ("simulated", &of_kill[..]),
        };
        match unused.iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((flag, _)) => Err(Usage::new(
                ErrorKind::ArgumentConflict,
                format!("{flag} is of no use to `crash-test {name}`"),
            )),
        }
    }
}

fn parse_seed(text: &str) -> Result<u64, String> {
    let number = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    number.map_err(|_| "expected a number of 64 bits, such as 17 or 0x11".to_owned())
}
