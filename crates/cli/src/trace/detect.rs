//! Which format it is.

use super::error::TraceError;
use super::files::Files;
use super::formats::{Arc, Blkparse, Csv, Fio, LineReader, Numbers, Strace, blkparse, oracle};
use super::source::Beginning;

/// A format of traces.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Format {
    Fio,
    Strace,
    Blkparse,
    Csv,
    Txt,
    OracleGeneral,
    Arc,
    Lirs,
}

impl Format {
    /// As `--trace-format` takes it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Format::Fio => "fio",
            Format::Strace => "strace",
            Format::Blkparse => "blkparse",
            Format::Csv => "csv",
            Format::Txt => "txt",
            Format::OracleGeneral => "oracle-general",
            Format::Arc => "arc",
            Format::Lirs => "lirs",
        }
    }

    /// What the numbers in errors count.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Format::OracleGeneral => "record",
            _ => "line",
        }
    }

    /// Whether a request names a block, or an object, which counts as a page whatever the size of a page.
    pub(crate) fn has_blocks(self) -> bool {
        !matches!(self, Format::Fio | Format::Strace | Format::Blkparse)
    }

    /// What reads the lines of a trace that begins like this; None for records.
    pub(super) fn reader(
        self,
        beginning: &[u8],
    ) -> Result<Option<Box<dyn LineReader>>, TraceError> {
        Ok(Some(match self {
            Format::Fio => Box::new(Fio::new(beginning)?),
            Format::Strace => Box::new(Strace::default()),
            Format::Blkparse => Box::new(Blkparse::new(blkparse::action_in(sample(beginning)))),
            Format::Csv => Box::new(Csv::default()),
            Format::Txt | Format::Lirs => Box::new(Numbers),
            Format::Arc => Box::new(Arc),
            Format::OracleGeneral => return Ok(None),
        }))
    }
}

/// So many lines are looked at.
const NR_SAMPLED: usize = 200;

/// The format of a trace that begins like this.
pub(super) fn format_of(beginning: &[u8], whole: Beginning) -> Result<Format, TraceError> {
    if beginning.starts_with(b"fio version ") {
        return Ok(Format::Fio);
    }
    let is_binary = |byte: &u8| *byte < b' ' && !matches!(byte, b'\n' | b'\r' | b'\t' | 0x1b);
    if beginning.iter().take(4096).any(is_binary) {
        return match oracle::is_likely(beginning, whole) {
            true => Ok(Format::OracleGeneral),
            false => Err(TraceError::Unknown(
                "it is binary, and its beginning has no records of oracleGeneral",
            )),
        };
    }
    // The last line of a part may be cut.
    let text = match (whole, beginning.iter().rposition(|&byte| byte == b'\n')) {
        (Beginning::Part, Some(end)) => &beginning[..end],
        _ => beginning,
    };
    let candidates = [
        Format::Strace,
        Format::Blkparse,
        Format::Arc,
        Format::Txt,
        Format::Csv,
    ];
    let mut best = None;
    for format in candidates {
        let (nr_good, nr_lines) = good_lines(format, text);
        if nr_good * 4 > nr_lines && best.is_none_or(|(most, _)| nr_good > most) {
            best = Some((nr_good, format));
        }
    }
    match best {
        Some((_, Format::Txt)) if sample(text).any(|line| line == b"*") => Ok(Format::Lirs),
        Some((_, format)) => Ok(format),
        None => Err(TraceError::Unknown(
            "most of its first lines are of none of the formats",
        )),
    }
}

/// How many of the first lines are good ones of this format, and how many there are.
fn good_lines(format: Format, text: &[u8]) -> (usize, usize) {
    let Ok(Some(mut reader)) = format.reader(text) else {
        return (0, 0);
    };
    let (mut files, mut requests) = (Files::default(), Vec::new());
    let (mut nr_good, mut nr_lines) = (0, 0);
    for line in sample(text) {
        nr_lines += 1;
        nr_good += usize::from(reader.line(line, &mut files, &mut requests).is_ok());
        requests.clear();
    }
    (nr_good, nr_lines)
}

fn sample(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b'\n')
        .map(<[u8]>::trim_ascii_end)
        .filter(|line| !line.is_empty())
        .take(NR_SAMPLED)
}
