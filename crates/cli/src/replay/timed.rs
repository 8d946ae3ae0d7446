//! The requests, in order, timed.

use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::engines::Engine;
use super::plan::Plan;
use super::resident::{self, How};
use super::settings::{EngineName, Pace, ReplaySettings};
use crate::failure::Failure;

/// What an engine has done.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) engine: EngineName,
    pub(super) nr_requests: u64,
    pub(super) nr_writes: u64,
    pub(super) nr_bytes: u64,
    pub(super) time: Duration,
    /// Nanoseconds of each request: from when it was made, or, at the pace of the trace, from when it should have been.
    pub(super) latencies: Histogram<u64>,
    /// Of the pages that were requested, those that did not have to be read from the file then; None if the engine does not know.
    pub(super) hit_ratio: Option<f64>,
    pub(super) own_bytes: u64,
    /// What the operating system has of the file in memory at the end, and how that was found out.
    pub(super) system_bytes: Option<(u64, How)>,
}

/// The longest time that is told apart: an hour.
const MOST_NS: u64 = 3_600_000_000_000;
/// `tick` is called after so many requests.
const TICK: usize = 64;

/// Makes all requests of the plan.
pub(super) fn replay(
    name: EngineName,
    mut engine: Box<dyn Engine>,
    plan: &Plan,
    settings: &ReplaySettings,
    tick: &mut dyn FnMut(u64),
) -> Result<Outcome, Failure> {
    let histogram = Histogram::new_with_bounds(1, MOST_NS, 3);
    let mut latencies = histogram.map_err(|error| Failure::because("no histogram", error))?;
    let path = settings.target.path().display();
    let failed =
        |what: &str, why: String| Failure::Run(format!("{name} cannot {what} {path}: {why}"));
    let mut buf = vec![0_u8; plan.most as usize];
    // What is written: not the zeros that a file system might leave out.
    let pattern: Vec<u8> = (0..plan.most).map(|at| (at % 251) as u8 + 1).collect();
    let page = settings.page_size as u64;
    let (mut nr_writes, mut nr_bytes, mut nr_pages, mut nr_misses) = (0, 0, 0, 0);
    let mut nr_fills = engine.nr_fills();
    // What counting the misses takes is no part of the replay.
    let mut aside = Duration::ZERO;
    let start = Instant::now();
    for (nr, action) in plan.actions.iter().enumerate() {
        if nr.is_multiple_of(TICK) {
            tick(nr as u64);
        }
        let due = match settings.pace {
            Pace::Closed => None,
            Pace::OfTrace { speed } => {
                let due = Duration::from_secs_f64(action.at as f64 / 1e9 / speed);
                if let Some(early) = due.checked_sub(start.elapsed()) {
                    thread::sleep(early);
                }
                start.checked_add(due)
            }
        };
        let from = due.unwrap_or_else(Instant::now);
        let len = action.len as usize;
        if action.is_write {
            nr_writes += 1;
            let written = engine.write(&pattern[..len], action.offset);
            written.map_err(|why| failed(&at("write", nr, action.offset), why))?;
        } else {
            let read = engine.read(&mut buf[..len], action.offset);
            read.map_err(|why| failed(&at("read", nr, action.offset), why))?;
            std::hint::black_box(&buf[..len]);
        }
        let took = u64::try_from(from.elapsed().as_nanos()).unwrap_or(u64::MAX);
        latencies.saturating_record(took.max(1));
        nr_bytes += u64::from(action.len);
        let pages = (action.offset + u64::from(action.len) - 1) / page - action.offset / page + 1;
        nr_pages += pages;
        if let Some(before) = nr_fills {
            let from = Instant::now();
            let now = engine.nr_fills().unwrap_or(before);
            // What was read ahead is no miss: the request did not ask for it.
            nr_misses += (now - before).min(pages);
            nr_fills = Some(now);
            aside += from.elapsed();
        }
    }
    if nr_writes > 0 {
        engine.sync().map_err(|why| failed("sync", why))?;
    }
    let time = match settings.pace {
        Pace::Closed => start.elapsed().saturating_sub(aside),
        Pace::OfTrace { .. } => start.elapsed(),
    };
    Ok(Outcome {
        engine: name,
        nr_requests: plan.actions.len() as u64,
        nr_writes,
        nr_bytes,
        time,
        latencies,
        hit_ratio: nr_fills.map(|_| 1.0 - nr_misses as f64 / nr_pages as f64),
        own_bytes: engine.own_bytes(),
        system_bytes: resident::bytes(&plan.file),
    })
}

fn at(what: &str, nr: usize, offset: u64) -> String {
    format!("{what} (request {}, offset {offset})", nr + 1)
}
