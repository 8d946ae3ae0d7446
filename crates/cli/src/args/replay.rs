//! The command line of `pagewell replay`.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, ValueEnum};

use super::values::{TraceFormat, Usage, parse_capacity, parse_page_size};
use crate::output::Format;
use crate::replay::{EngineName, Pace, ReplaySettings, Target};

/// Make the requests of a trace again on a real file, through Pagewell and through what it would replace
///
/// The trace's formats are those of `pagewell what-if`. Several files of the trace are laid one behind the other.
#[derive(Args, Debug)]
pub(crate) struct ReplayArgs {
    /// The trace; - for the standard input
    trace: PathBuf,

    /// The file to read. It is never written to; nobody may change it meanwhile
    #[arg(long, value_name = "FILE", required_unless_present = "writes")]
    file: Option<PathBuf>,

    /// Do the writes of the trace too, and everything, on this file, WHICH IS OVERWRITTEN [default: writes are replayed as reads]
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    writes: Option<PathBuf>,

    /// Only these engines
    #[arg(
        long = "engine",
        value_enum,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "pagewell,pread,direct,mmap"
    )]
    engines: Vec<Engine>,

    /// Memory of Pagewell's cache, such as 64M [default: a fifth of what the trace touches, at least 1M]
    #[arg(long, value_name = "BYTES", value_parser = parse_capacity)]
    capacity: Option<u64>,

    /// Size of a page of the cache, and of a block of the trace: 4K, 8K, 16K, 32K or 64K
    #[arg(long, value_name = "BYTES", default_value = "4K", value_parser = parse_page_size)]
    page_size: usize,

    /// When to make a request
    #[arg(long, value_enum, default_value_t = Timing::Closed)]
    timing: Timing,

    /// How many times as fast as the trace (with --timing trace) [default: 1]
    #[arg(long, value_name = "FACTOR", value_parser = parse_speed)]
    speed: Option<f64>,

    /// Refuse requests past the end of the file, instead of wrapping them into it
    #[arg(long)]
    strict: bool,

    /// The format of the trace, instead of what its beginning looks like
    #[arg(long, value_enum, value_name = "FORMAT")]
    trace_format: Option<TraceFormat>,

    /// How to print: a table for people, or one JSON object a line
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Engine {
    /// A cache of Pagewell
    Pagewell,
    /// pread, through the operating system's cache
    Pread,
    /// pread with O_DIRECT, past it
    Direct,
    /// Copies from a mapping
    Mmap,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Timing {
    /// As soon as the one before is done
    Closed,
    /// At its time in the trace
    Trace,
}

impl ReplayArgs {
    pub(crate) fn settings(self) -> Result<ReplaySettings, Usage> {
        let usage = |kind, message: &str| Usage::new(kind, message.to_owned());
        if self.speed.is_some() && self.timing == Timing::Closed {
            return Err(usage(
                ErrorKind::ArgumentConflict,
                "--speed is of no use without --timing trace",
            ));
        }
        let mut engines: Vec<EngineName> = Vec::new();
        for engine in self.engines {
            let name = match engine {
                Engine::Pagewell => EngineName::Pagewell,
                Engine::Pread => EngineName::Pread,
                Engine::Direct => EngineName::Direct,
                Engine::Mmap => EngineName::Mmap,
            };
            if !engines.contains(&name) {
                engines.push(name);
            }
        }
        if self.capacity.is_some() && !engines.contains(&EngineName::Pagewell) {
            return Err(usage(
                ErrorKind::ArgumentConflict,
                "--capacity is of no use without the engine pagewell",
            ));
        }
        let target = match (self.writes, self.file) {
            (Some(path), _) => Target::Write(path),
            (None, Some(path)) => Target::Read(path),
            (None, None) => {
                return Err(usage(
                    ErrorKind::MissingRequiredArgument,
                    "--file or --writes names the file",
                ));
            }
        };
        Ok(ReplaySettings {
            trace: self.trace,
            trace_format: self.trace_format.map(TraceFormat::format),
            target,
            engines,
            page_size: self.page_size,
            capacity: self.capacity,
            pace: match self.timing {
                Timing::Closed => Pace::Closed,
                Timing::Trace => Pace::OfTrace {
                    speed: self.speed.unwrap_or(1.0),
                },
            },
            is_strict: self.strict,
            format: self.format,
        })
    }
}

fn parse_speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if (1e-3..=1e6).contains(&speed) => Ok(speed),
        _ => Err("expected a factor between 0.001 and 1000000".to_owned()),
    }
}
