//! The requests as places in the file.
//!
//! The files of a trace lie one behind the other, in the order of their first request, each as long as the trace shows it to be.
//! What comes to lie past the end of the real file is wrapped into it.

use std::fs::File;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};

use super::settings::{Pace, ReplaySettings};
use crate::failure::Failure;
use crate::machine;
use crate::progress::Progress;
use crate::size::Bytes;
use crate::trace::{self, Op, Request, Source, Span, TraceError};

/// What is replayed.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) actions: Vec<Action>,
    /// The file, open for reading.
    pub(super) file: File,
    pub(super) len: u64,
    /// The longest request.
    pub(super) most: u32,
    /// Requests that lie past the end of the file, and were wrapped into it.
    pub(super) nr_wrapped: u64,
    /// Distinct pages of the file that are requested, as bytes.
    pub(super) touched: u64,
    pub(super) notes: Vec<String>,
}

/// A request, placed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Action {
    pub(super) offset: u64,
    pub(super) len: u32,
    pub(super) is_write: bool,
    /// Nanoseconds after the first request; 0 if the trace has no times.
    pub(super) at: u64,
}

/// A longer request is replayed as so many bytes.
const MOST_BYTES: u64 = 64 << 20;
/// What a request takes here: read, and placed.
const REQUEST_BYTES: u64 = 128;

/// The requests as the trace has them.
struct Requested {
    page_size: u64,
    /// Each with its file, and the number of its line.
    requests: Vec<(u32, u64, Action)>,
    /// How far each file of the trace reaches.
    ends: Vec<u64>,
    nr_cut: u64,
    nr_writes: u64,
    nr_untimed: u64,
    first: Option<u64>,
    most: u64,
}

impl Plan {
    pub(super) fn read(settings: &ReplaySettings) -> Result<Plan, Failure> {
        let (file, len) = open(settings.target.path())?;
        let trace = settings.trace.display();
        let failed = |error: TraceError| match error {
            TraceError::Open(cause) => Failure::because(format_args!("cannot open {trace}"), cause),
            error => Failure::Run(format!("{trace}: {error}")),
        };
        let source = Source::open(&settings.trace).map_err(failed)?;
        let progressed = source.progressed();
        let progress = Progress::of_steps(progressed.total);
        progress.say("reading the trace".to_owned());
        let mut requested = Requested {
            page_size: settings.page_size as u64,
            requests: Vec::new(),
            ends: Vec::new(),
            nr_cut: 0,
            nr_writes: 0,
            nr_untimed: 0,
            first: None,
            most: machine::available_memory().unwrap_or(4 << 30) / REQUEST_BYTES,
        };
        let options = trace::Options {
            format: settings.trace_format,
        };
        let report = trace::read(
            source,
            &options,
            &mut |request, line| requested.add(request, line),
            &mut || progress.step_to(progressed.done()),
        )
        .map_err(failed)?;
        drop(progress);
        if requested.nr_untimed > 0 && settings.pace != Pace::Closed {
            return Err(Failure::Run(format!(
                "{trace}: as {} it has no times: replay it with --timing closed",
                report.format.name()
            )));
        }
        let mut plan = requested.place(settings, file, len, report.format.unit())?;
        if report.nr_bad > 0 {
            let first = report.first_bad.map_or(String::new(), |first| {
                format!(
                    "; the first is {} {}: {}",
                    report.format.unit(),
                    first.line,
                    first.why
                )
            });
            plan.notes.push(format!(
                "{trace}: {} of {} {}s cannot be read as {} and are left out{first}",
                report.nr_bad,
                report.nr_lines,
                report.format.unit(),
                report.format.name()
            ));
        }
        plan.notes
            .extend(report.notes.iter().map(|note| format!("{trace}: {note}")));
        Ok(plan)
    }
}

impl Requested {
    fn add(&mut self, request: Request, line: u64) -> Result<(), String> {
        let (offset, len) = match request.span {
            Span::Bytes { offset, len } => (offset, len),
            // Objects may be numbered by hashes: what is beyond the longest file is wrapped there.
            Span::Blocks { first, count } => {
                let blocks = (1 << 62) / self.page_size - Span::MOST_BLOCKS;
                (first % blocks * self.page_size, count * self.page_size)
            }
        };
        let file = request.file as usize;
        if self.ends.len() <= file {
            self.ends.resize(file + 1, 0);
        }
        let nr = self.requests.len() as u64 + 1;
        self.ends[file] = self.ends[file].max(offset + len);
        self.nr_cut += u64::from(len > MOST_BYTES);
        self.nr_writes += u64::from(request.op == Op::Write);
        let at = match request.time {
            None => {
                self.nr_untimed += 1;
                0
            }
            Some(time) => time.saturating_sub(*self.first.get_or_insert(time)),
        };
        let action = Action {
            offset,
            len: len.min(MOST_BYTES) as u32,
            is_write: request.op == Op::Write,
            at,
        };
        self.requests.push((request.file, line, action));
        match nr > self.most {
            false => Ok(()),
            true => Err(format!(
                "the trace so far has {nr} requests, which take all of the memory that can be \
                 taken: replay a part of it"
            )),
        }
    }

    /// Lays the files one behind the other, and all requests into the real one.
    fn place(
        self,
        settings: &ReplaySettings,
        file: File,
        len: u64,
        unit: &str,
    ) -> Result<Plan, Failure> {
        let page = self.page_size;
        let mut notes = Vec::new();
        // Whole pages, so that all engines do the same, O_DIRECT too.
        let span = if len >= page { len - len % page } else { len };
        let mut bases = Vec::with_capacity(self.ends.len());
        let mut next = 0_u64;
        for end in &self.ends {
            bases.push(next);
            // Beyond all files, a place is wrapped anyhow.
            let end = end.next_multiple_of(page);
            next = next.checked_add(end).unwrap_or(0);
        }
        let path = settings.target.path().display();
        let (mut nr_wrapped, mut most, mut actions) =
            (0, 0, Vec::with_capacity(self.requests.len()));
        let mut pages = rustc_hash::FxHashSet::default();
        for (file, line, action) in self.requests {
            let offset = bases[file as usize].saturating_add(action.offset);
            let whole = u64::from(action.len).min(span);
            let is_inside = offset
                .checked_add(u64::from(action.len))
                .is_some_and(|end| end <= len);
            if !is_inside && settings.is_strict {
                return Err(Failure::Run(format!(
                    "{}: {unit} {line}: a request past the end of {path}, which has {}: bytes \
                     {offset} to {}",
                    settings.trace.display(),
                    Bytes(len),
                    offset.saturating_add(u64::from(action.len)),
                )));
            }
            nr_wrapped += u64::from(!is_inside);
            let offset = match is_inside {
                true => offset,
                false => (offset % span).min(span - whole),
            };
            let len = if is_inside {
                u64::from(action.len)
            } else {
                whole
            } as u32;
            most = len.max(most);
            for page in offset / page..=(offset + u64::from(len) - 1) / page {
                pages.insert(page);
            }
            actions.push(Action {
                offset,
                len,
                is_write: action.is_write && settings.target.is_written(),
                at: action.at,
            });
        }
        if self.ends.len() > 1 {
            notes.push(format!(
                "the {} files of the trace lie one behind the other: {} in all",
                self.ends.len(),
                Bytes(next)
            ));
        }
        if nr_wrapped > 0 {
            notes.push(format!(
                "{nr_wrapped} of {} requests are past the end of {path}, which has {}, and are \
                 wrapped into it",
                actions.len(),
                Bytes(len)
            ));
        }
        if self.nr_cut > 0 {
            notes.push(format!(
                "{} requests are of more than {}, and are cut to that",
                self.nr_cut,
                Bytes(MOST_BYTES)
            ));
        }
        if self.nr_writes > 0 && !settings.target.is_written() {
            notes.push(format!(
                "{} writes are replayed as reads (--writes FILE has them written, to a file that \
                 may be overwritten)",
                self.nr_writes
            ));
        }
        Ok(Plan {
            actions,
            file,
            len,
            most,
            nr_wrapped,
            touched: pages.len() as u64 * page,
            notes,
        })
    }
}

/// Opens the file, and tells its length.
fn open(path: &Path) -> Result<(File, u64), Failure> {
    let shown = path.display();
    let cannot = |error: rustix::io::Errno| {
        Failure::because(
            format_args!("cannot open {shown}"),
            std::io::Error::from(error),
        )
    };
    // Without waiting for the other end of a pipe.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(cannot)?;
    let found = rustix::fs::fstat(&file).map_err(cannot)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(Failure::Run(format!("{shown} is not a regular file")));
    }
    match u64::try_from(found.st_size).unwrap_or(0) {
        0 => Err(Failure::Run(format!(
            "{shown} is empty: a replay needs a file with something in it"
        ))),
        len => Ok((file.into(), len)),
    }
}
