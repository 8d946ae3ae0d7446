//! From bytes to requests; bad lines.

use std::io::{self, Read};

use super::detect::{self, Format};
use super::error::TraceError;
use super::files::Files;
use super::formats::{LineReader, Stop, oracle};
use super::lines::{Lines, Next};
use super::request::{Bad, Op, Request};
use super::source::Source;

/// How a trace is to be read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// None to find it out.
    pub(crate) format: Option<Format>,
}

/// What was read.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) format: Format,
    /// How the trace was packed.
    pub(crate) packed: Option<&'static str>,
    /// Lines, or records of a binary format.
    pub(crate) nr_lines: u64,
    pub(crate) nr_bad: u64,
    pub(crate) first_bad: Option<FirstBad>,
    pub(crate) nr_requests: u64,
    pub(crate) nr_writes: u64,
    pub(crate) nr_files: usize,
    /// What the user should know of this trace.
    pub(crate) notes: Vec<String>,
}

/// The first line that could not be read.
#[derive(Clone, Debug)]
pub(crate) struct FirstBad {
    pub(crate) line: u64,
    pub(crate) why: Bad,
    pub(crate) excerpt: String,
}

/// Who gets the requests, each with the number of its line or record, from 1; an error ends the reading.
pub(crate) type Sink<'a> = dyn FnMut(Request, u64) -> Result<(), String> + 'a;

/// So many bad lines are always let pass.
const FEW: u64 = 10;
/// And one line of so many.
const ONE_OF: u64 = 100;
/// `tick` is called after so many lines.
const TICK: u64 = 1 << 12;

/// Reads all of a trace.
pub(crate) fn read(
    mut source: Source,
    options: &Options,
    sink: &mut Sink<'_>,
    tick: &mut dyn FnMut(),
) -> Result<Report, TraceError> {
    let beginning = source.beginning();
    let (beginning, whole) = beginning.map_err(|error| failed("byte", 0, error))?;
    if beginning.iter().all(u8::is_ascii_whitespace) {
        return Err(TraceError::Empty);
    }
    let format = match options.format {
        Some(format) => format,
        None => detect::format_of(&beginning, whole)?,
    };
    let mut run = Run {
        format,
        files: Files::default(),
        nr_lines: 0,
        nr_bad: 0,
        first_bad: None,
        nr_requests: 0,
        nr_writes: 0,
        sink,
        tick,
    };
    let notes = match format.reader(&beginning)? {
        Some(reader) => run.lines(&mut source, reader)?,
        None => run.records(&mut source)?,
    };
    run.report(source.packed, notes)
}

struct Run<'a, 's> {
    format: Format,
    files: Files,
    nr_lines: u64,
    nr_bad: u64,
    first_bad: Option<FirstBad>,
    nr_requests: u64,
    nr_writes: u64,
    sink: &'a mut Sink<'s>,
    tick: &'a mut dyn FnMut(),
}

impl Run<'_, '_> {
    fn lines(
        &mut self,
        source: &mut Source,
        mut reader: Box<dyn LineReader>,
    ) -> Result<Vec<String>, TraceError> {
        let mut lines = Lines::default();
        let mut requests = Vec::new();
        loop {
            let next = lines.next(&mut source.bytes);
            let next = next.map_err(|error| failed("line", self.nr_lines, error))?;
            let line = match next {
                Next::End => break,
                Next::Line(line) => {
                    self.nr_lines += 1;
                    line
                }
                Next::TooLong => {
                    self.nr_lines += 1;
                    self.bad("a line of more than a mebibyte", &[])?;
                    continue;
                }
            };
            if self.nr_lines.is_multiple_of(TICK) {
                (self.tick)();
            }
            if line.is_empty() {
                continue;
            }
            requests.clear();
            match reader.line(line, &mut self.files, &mut requests) {
                Ok(()) => {}
                Err(Stop::Bad(why)) => self.bad(why, line)?,
                Err(Stop::Files) => {
                    return Err(TraceError::TooManyFiles {
                        line: self.nr_lines,
                    });
                }
            }
            for request in &requests {
                self.give(*request)?;
            }
        }
        Ok(reader.notes())
    }

    fn records(&mut self, source: &mut Source) -> Result<Vec<String>, TraceError> {
        let mut nr_empty = 0_u64;
        loop {
            let at_end = source.is_at_end();
            if at_end.map_err(|error| failed("record", self.nr_lines, error))? {
                break;
            }
            let mut record = [0; oracle::RECORD];
            let mut len = 0;
            while len < record.len() {
                match source.bytes.read(&mut record[len..]) {
                    Ok(0) => break,
                    Ok(n) => len += n,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(failed("record", self.nr_lines, error)),
                }
            }
            self.nr_lines += 1;
            if self.nr_lines.is_multiple_of(TICK) {
                (self.tick)();
            }
            if len < record.len() {
                self.bad("the trace ends within a record", &[])?;
                break;
            }
            match oracle::request(&record) {
                Ok(Some(request)) => self.give(request)?,
                Ok(None) => nr_empty += 1,
                Err(why) => self.bad(why, &[])?,
            }
        }
        Ok(match nr_empty {
            0 => Vec::new(),
            nr => vec![format!(
                "{nr} records of objects of no bytes are left out, as libCacheSim does"
            )],
        })
    }

    fn give(&mut self, request: Request) -> Result<(), TraceError> {
        self.nr_requests += 1;
        self.nr_writes += u64::from(request.op == Op::Write);
        (self.sink)(request, self.nr_lines).map_err(|why| TraceError::Stopped {
            unit: self.format.unit(),
            at: self.nr_lines,
            why,
        })
    }

    fn bad(&mut self, why: Bad, line: &[u8]) -> Result<(), TraceError> {
        self.nr_bad += 1;
        self.first_bad.get_or_insert_with(|| FirstBad {
            line: self.nr_lines,
            why,
            excerpt: excerpt(line),
        });
        if self.nr_bad > FEW && self.nr_bad.saturating_mul(ONE_OF) > self.nr_lines {
            return self.too_many();
        }
        Ok(())
    }

    fn too_many(&self) -> Result<(), TraceError> {
        match &self.first_bad {
            None => Ok(()),
            Some(first) => Err(TraceError::TooManyBad {
                format: self.format.name(),
                unit: self.format.unit(),
                nr_bad: self.nr_bad,
                nr_all: self.nr_lines,
                first: first.line,
                why: first.why,
                excerpt: first.excerpt.clone(),
            }),
        }
    }

    fn report(
        self,
        packed: Option<&'static str>,
        notes: Vec<String>,
    ) -> Result<Report, TraceError> {
        // A short trace, most of which is bad, is something else.
        if self.nr_bad > 0 && self.nr_bad >= self.nr_requests {
            self.too_many()?;
        }
        if self.nr_requests == 0 {
            let hint = notes.iter().map(|note| format!("; {note}")).collect();
            return Err(TraceError::NoRequests {
                format: self.format.name(),
                hint,
            });
        }
        Ok(Report {
            format: self.format,
            packed,
            nr_lines: self.nr_lines,
            nr_bad: self.nr_bad,
            first_bad: self.first_bad,
            nr_requests: self.nr_requests,
            nr_writes: self.nr_writes,
            nr_files: self.files.nr().max(1),
            notes,
        })
    }
}

fn failed(unit: &'static str, after: u64, error: io::Error) -> TraceError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => TraceError::Cut { unit, after },
        _ => TraceError::Read {
            unit,
            after,
            source: error,
        },
    }
}

/// The beginning of a line, printable.
fn excerpt(line: &[u8]) -> String {
    const MOST: usize = 60;
    let text = String::from_utf8_lossy(&line[..line.len().min(4 * MOST)]);
    let printable = text.chars().map(|c| if c.is_control() { '·' } else { c });
    let mut shown: String = printable.take(MOST).collect();
    if shown.len() < line.len() {
        shown.push('…');
    }
    shown
}
