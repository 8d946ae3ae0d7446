//! Values of the command line, and what is wrong with them.

use std::time::Duration;

use clap::ValueEnum;
use clap::error::ErrorKind;

use crate::size;
use crate::trace;

/// Bad usage that the parser cannot see.
#[derive(Debug)]
pub(super) struct Usage {
    pub(super) kind: ErrorKind,
    pub(super) message: String,
}

impl Usage {
    pub(super) fn new(kind: ErrorKind, message: String) -> Usage {
        Usage { kind, message }
    }
}

pub(super) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds")?;
    if !(0.001..=3600.0).contains(&seconds) {
        return Err("expected between 0.001 and 3600 seconds".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// A format of traces, as `--trace-format` names it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum TraceFormat {
    /// fio's iologs, versions 2 and 3
    Fio,
    /// What strace prints
    Strace,
    /// What blkparse prints
    Blkparse,
    /// libCacheSim's csv: time, object, size, operation; or by the names in the first line
    Csv,
    /// A number a line
    Txt,
    /// libCacheSim's records of 24 bytes
    #[value(alias = "oraclegeneral", alias = "oracleGeneral")]
    OracleGeneral,
    /// Lines of first block, number of blocks, two numbers more
    Arc,
    /// A number a line, with lines of * between
    Lirs,
}

impl TraceFormat {
    pub(super) fn format(self) -> trace::Format {
        match self {
            TraceFormat::Fio => trace::Format::Fio,
            TraceFormat::Strace => trace::Format::Strace,
            TraceFormat::Blkparse => trace::Format::Blkparse,
            TraceFormat::Csv => trace::Format::Csv,
            TraceFormat::Txt => trace::Format::Txt,
            TraceFormat::OracleGeneral => trace::Format::OracleGeneral,
            TraceFormat::Arc => trace::Format::Arc,
            TraceFormat::Lirs => trace::Format::Lirs,
        }
    }
}

/// The size of the pages of a simulation.
pub(super) fn parse_trace_page_size(text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        bytes if bytes.is_power_of_two() && (512..=16 << 20).contains(&bytes) => Ok(bytes),
        _ => Err("expected a power of two from 512 to 16M".to_owned()),
    }
}

/// The pages that a cache can have.
const PAGE_SIZES: std::ops::RangeInclusive<u64> = 4096..=65_536;

pub(super) fn parse_capacity(text: &str) -> Result<u64, String> {
    parse_in(text, 1..=u64::MAX)
}

pub(super) fn parse_page_size(text: &str) -> Result<usize, String> {
    let bytes = size::parse(text)?;
    if !PAGE_SIZES.contains(&bytes) || !bytes.is_power_of_two() {
        return Err("a page is 4K, 8K, 16K, 32K or 64K".to_owned());
    }
    usize::try_from(bytes).map_err(|error| error.to_string())
}

pub(super) fn parse_in(text: &str, range: std::ops::RangeInclusive<u64>) -> Result<u64, String> {
    let bytes = size::parse(text)?;
    if range.contains(&bytes) {
        Ok(bytes)
    } else if bytes == 0 {
        Err("it must not be zero".to_owned())
    } else {
        Err(format!("at most {} bytes", range.end()))
    }
}
