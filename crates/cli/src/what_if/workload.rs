//! The trace as pages, numbered densely.

use rustc_hash::FxHashMap;

use super::sample::{Sample, hash};
use super::settings::{Rate, WhatIfSettings};
use crate::failure::Failure;
use crate::machine;
use crate::progress::Progress;
use crate::trace::{self, Report, Request, Source, Span};

/// What is simulated.
#[derive(Debug)]
pub(super) struct Workload {
    /// Pages by their numbers, from 0, in the order of the trace; those of the sample.
    pub(super) requests: Vec<u32>,
    /// How many pages these are.
    pub(super) nr_sampled: u32,
    pub(super) sample: Sample,
    /// A quarter of the sample for each page: 0 to 3. Empty if everything is simulated.
    pub(super) quarters: Vec<u8>,
    /// How many pages all requests are, those that are not in the sample included.
    pub(super) nr_page_requests: u64,
    pub(super) page_size: u64,
    pub(super) report: Report,
}

/// `auto` keeps at most so many pages: the published error of 8 Ki is below a point.
const AUTO_PAGES: usize = 1 << 16;
/// A trace of more page requests than this is a long one: to simulate all of it takes minutes.
const MANY_REQUESTS: u64 = if cfg!(test) { 1 << 18 } else { 1 << 23 };
/// What the simulation of a page request takes at the most: its number, when it comes again, for each processor.
const REQUEST_BYTES: u64 = 32;
/// What a page takes: its place in a table, and in the simulated caches.
const PAGE_BYTES: u64 = 256;

impl Workload {
    pub(super) fn read(settings: &WhatIfSettings) -> Result<Workload, Failure> {
        let failed = |error: trace::TraceError| {
            Failure::Run(match error {
                trace::TraceError::Open(cause) => {
                    format!("cannot open {}: {cause}", settings.trace.display())
                }
                error => format!("{}: {error}", settings.trace.display()),
            })
        };
        let source = Source::open(&settings.trace).map_err(failed)?;
        let progressed = source.progressed();
        let progress = Progress::of_steps(progressed.total);
        progress.say("reading the trace".to_owned());
        let mut pages = Pages::new(settings);
        let options = trace::Options {
            format: settings.trace_format,
        };
        let report = trace::read(
            source,
            &options,
            &mut |request, _| pages.add(request),
            &mut || progress.step_to(progressed.done()),
        )
        .map_err(failed)?;
        if pages.requests.is_empty() {
            return Err(Failure::Run(format!(
                "{}: the sample has none of its pages: take a greater --sample",
                settings.trace.display()
            )));
        }
        Ok(pages.finish(report))
    }

    /// Says on standard error what the user should know of the trace.
    pub(super) fn tell(&self, settings: &WhatIfSettings, progress: &Progress) {
        let trace = settings.trace.display();
        if let Some(first) = &self.report.first_bad {
            let unit = self.report.format.unit();
            let (nr, all) = (self.report.nr_bad, self.report.nr_lines);
            progress.note(&format!(
                "{trace}: {nr} of {all} {unit}s cannot be read as {} and are left out; the first \
                 is {unit} {}: {}{}",
                self.report.format.name(),
                first.line,
                first.why,
                match first.excerpt.as_str() {
                    "" => String::new(),
                    excerpt => format!(": `{excerpt}`"),
                }
            ));
        }
        for note in &self.report.notes {
            progress.note(&format!("{trace}: {note}"));
        }
    }

    /// How many pages the trace touches; estimated from a sample.
    pub(super) fn nr_touched(&self) -> u64 {
        (f64::from(self.nr_sampled) / self.sample.rate()).round() as u64
    }

    /// The hit ratio if so many requests of a sample of this rate miss.
    pub(super) fn hit_ratio(&self, misses: u64, rate: f64) -> f64 {
        (1.0 - misses as f64 / (self.nr_page_requests as f64 * rate)).clamp(0.0, 1.0)
    }

    /// The hit ratio of a cache that holds all pages: each is missed once.
    pub(super) fn reachable(&self) -> f64 {
        self.hit_ratio(u64::from(self.nr_sampled), self.sample.rate())
    }
}

/// A workload in the making.
struct Pages {
    page_size: u64,
    /// From how many page requests on the sample is halved as long as it has too many pages; None to leave it as it is.
    halved_from: Option<u64>,
    sample: Sample,
    numbers: FxHashMap<(u64, u32), u32>,
    requests: Vec<u32>,
    nr_page_requests: u64,
    most_bytes: u64,
}

impl Pages {
    fn new(settings: &WhatIfSettings) -> Pages {
        let sample = match settings.sample {
            Rate::Part(rate) => Sample::of_rate(rate),
            Rate::All | Rate::Auto | Rate::Usual => Sample::ALL,
        };
        let halved_from = match settings.sample {
            Rate::All | Rate::Part(_) => None,
            Rate::Auto => Some(0),
            Rate::Usual => Some(MANY_REQUESTS),
        };
        Pages {
            page_size: settings.page_size,
            halved_from,
            sample,
            numbers: FxHashMap::default(),
            requests: Vec::new(),
            nr_page_requests: 0,
            most_bytes: machine::available_memory().unwrap_or(4 << 30),
        }
    }

    fn add(&mut self, request: Request) -> Result<(), String> {
        let (first, count) = match request.span {
            Span::Blocks { first, count } => (first, count),
            Span::Bytes { offset, len } => {
                let first = offset / self.page_size;
                (first, (offset + len - 1) / self.page_size - first + 1)
            }
        };
        self.nr_page_requests += count;
        for page in first..=first + (count - 1) {
            if !self.sample.is_all() && !self.sample.has(hash(request.file, page)) {
                continue;
            }
            // No overflow: the memory ends long before.
            let next = self.numbers.len() as u32;
            let number = *self.numbers.entry((page, request.file)).or_insert(next);
            self.requests.push(number);
        }
        self.bound()
    }

    /// Keeps to the memory that there is.
    fn bound(&mut self) -> Result<(), String> {
        let bytes = self.requests.len() as u64 * REQUEST_BYTES;
        let bytes = bytes + self.numbers.len() as u64 * PAGE_BYTES;
        let is_full = bytes > self.most_bytes || self.numbers.len() >= (1 << 31);
        if let Some(halved_from) = self.halved_from {
            let is_long = self.nr_page_requests > halved_from;
            if is_full || is_long && self.numbers.len() > AUTO_PAGES {
                self.halve();
            }
            return Ok(());
        }
        match is_full {
            false => Ok(()),
            true => Err(format!(
                "the trace so far has {} page requests of {} pages, whose simulation \
                 takes all of the memory that can be taken: take a sample \
                 (--sample auto, or a smaller rate)",
                self.requests.len(),
                self.numbers.len()
            )),
        }
    }

    /// Leaves half of the pages out, with all of their requests.
    fn halve(&mut self) {
        const GONE: u32 = u32::MAX;
        self.sample = self.sample.halved();
        let mut renumbered = vec![GONE; self.numbers.len()];
        let mut next = 0;
        self.numbers.retain(|(page, file), number| {
            let stays = self.sample.has(hash(*file, *page));
            if stays {
                renumbered[*number as usize] = next;
                *number = next;
                next += 1;
            }
            stays
        });
        self.requests.retain_mut(|number| {
            *number = renumbered[*number as usize];
            *number != GONE
        });
        self.numbers.shrink_to_fit();
    }

    fn finish(self, report: Report) -> Workload {
        let mut quarters = Vec::new();
        if !self.sample.is_all() {
            quarters.resize(self.numbers.len(), 0);
            for ((page, file), number) in &self.numbers {
                // Which sample has the page is decided by the high bits.
                quarters[*number as usize] = (hash(*file, *page) & 3) as u8;
            }
        }
        Workload {
            requests: self.requests,
            nr_sampled: self.numbers.len() as u32,
            sample: self.sample,
            quarters,
            nr_page_requests: self.nr_page_requests,
            page_size: self.page_size,
            report,
        }
    }
}

#[cfg(test)]
impl Workload {
    /// The workload of a trace of numbers.
    pub(super) fn of(pages: &[u64], sample: Rate) -> Workload {
        let settings = WhatIfSettings {
            trace: "a trace".into(),
            trace_format: None,
            page_size: 4096,
            sizes: Vec::new(),
            policies: vec![pagewell_sim::Policy::Lru],
            sample,
            miss_us: 100.0,
            html: None,
            format: crate::output::Format::Table,
        };
        let text: String = pages.iter().map(|page| format!("{page}\n")).collect();
        let source = Source::new(Box::new(std::io::Cursor::new(text)), 0).unwrap();
        let mut pages = Pages::new(&settings);
        let report = trace::read(
            source,
            &trace::Options::default(),
            &mut |request, _| pages.add(request),
            &mut || {},
        );
        pages.finish(report.unwrap())
    }
}
