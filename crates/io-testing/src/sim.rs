//! Simulator: a seed determines the order, delays, partial transfers and faults of requests.
//!
//! Requests advance in steps, made by methods of [`SimEngine`] and by threads that wait in
//! [`Engine::run`] or in a [`Lane`]. A step performs all, a part or nothing of a random request in
//! flight by the backend's calls, on the calling thread. While all requests are delayed, steps are
//! skipped. If one thread submits the requests and makes the steps, the same seed, faults, requests
//! and backend results yield the same [`History`].
//!
//! The engine has no threads (E5 of [`Engine`]), and keeps E1 to E4 and E6. It makes no process
//! check (E7): a child of `fork` that makes steps or drops the engine performs the parent's
//! requests, too.

use std::io;
use std::panic::resume_unwind;
use std::sync::{Arc, PoisonError};

use pagewell_io::engine::{Engine, Job, Kind, Lane, Limits};
use pagewell_io::testing::{Group, NO_LIMITS, Steps as _, Trusted, caught, total_len};
use pagewell_sync::bytes::{RacyBytes, RacySource};
use pagewell_sync::{Condvar, Mutex, MutexGuard};
use pagewell_testkit::Rng;

/// Sector size in bytes. A loss of power tears writes at sector boundaries.
const SECTOR: usize = 512;

/// Fault rates, per thousand steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// A step performs a part of a transfer, and later steps perform the rest.
    pub short: u32,
    /// A step has no effect.
    pub interrupted: u32,
    /// A request is not selected during a random number of steps.
    pub delayed: u32,
    /// A request fails with `EIO`, or a write with `ENOSPC`, after a random part of a transfer.
    pub failed: u32,
    /// A transfer is performed at a random position of the file instead of its own.
    pub misdirected: u32,
}

impl Faults {
    /// Returns rates of short, interrupted and delayed steps, which a correct program tolerates.
    #[must_use]
    pub fn harmless() -> Self {
        Self {
            short: 300,
            interrupted: 100,
            delayed: 200,
            ..Self::default()
        }
    }
}

/// Record of one step, or of one request that failed because the power was off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Number of the request; the first one submitted is 0.
    pub request: u64,
    /// Effect of the step.
    pub what: What,
}

/// Effect of a step on its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// This number of further bytes was transferred. The request stays in flight.
    Part(usize),
    /// The step had no effect. The request stays in flight.
    Interrupted,
    /// The request stays in flight, and is not selected during this number of steps.
    Delayed(u64),
    /// The request was performed at this position instead of its own, and is completed.
    Misdirected(u64),
    /// The request is completed, with the backend's result.
    Done,
    /// The request failed with this error number.
    Failed(i32),
    /// The request failed because the power was off. This number of sectors of a write was written.
    PowerOff(usize),
}

/// All events, in order.
pub type History = Vec<Event>;

/// The simulating engine.
#[derive(Debug)]
pub struct SimEngine {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    rng: Rng,
    faults: Faults,
    flights: Vec<Flight>,
    /// Number of requests that steps are performing, which are not in `flights`.
    nr_stepping: usize,
    nr_given: u64,
    nr_steps: u64,
    power_off_at: Option<u64>,
    is_off: bool,
    history: History,
}

#[derive(Debug)]
struct Flight {
    number: u64,
    job: Job,
    /// First step that may select the request.
    due: u64,
}

#[derive(Clone, Copy, Debug)]
enum Plan {
    Part(usize),
    Whole,
    Fail {
        after: usize,
        errno: i32,
    },
    /// The position of the misdirected transfer is derived from this random number.
    Misdirect(u64),
}

/// Returns a number below `end`. The bias is negligible only if `end` is small.
fn below(rng: &mut Rng, end: usize) -> usize {
    (rng.next_u64() % end as u64) as usize
}

fn chance(rng: &mut Rng, quarters: usize) -> bool {
    below(rng, 4) < quarters
}

impl State {
    fn happens(&mut self, thousandth: u32) -> bool {
        (below(&mut self.rng, 1000) as u32) < thousandth
    }

    /// Returns a random length: in one of four cases any length, otherwise whole sectors.
    fn part(&mut self, len: usize) -> usize {
        let nr = below(&mut self.rng, len.max(1));
        match chance(&mut self.rng, 1) {
            true => nr,
            false => nr - nr % SECTOR,
        }
    }

    fn note(&mut self, request: u64, what: What) {
        self.history.push(Event { request, what });
    }

    /// Removes the request of the next step from `flights`.
    fn choose(&mut self) -> Option<Flight> {
        if self.flights.is_empty() {
            return None;
        }
        let now = self.nr_steps;
        let mut due: Vec<usize> = (0..self.flights.len())
            .filter(|&nr| self.flights[nr].due <= now)
            .collect();
        if due.is_empty() {
            let next = self
                .flights
                .iter()
                .map(|flight| flight.due)
                .min()
                .unwrap_or(now);
            self.nr_steps = next;
            due = (0..self.flights.len())
                .filter(|&nr| self.flights[nr].due <= next)
                .collect();
        }
        let nr = due[below(&mut self.rng, due.len())];
        Some(self.flights.swap_remove(nr))
    }

    /// Plans the step of `flight`. Returns `None` if it does not advance.
    fn plan(&mut self, flight: &mut Flight) -> Option<Plan> {
        let faults = self.faults;
        let request = flight.job.request();
        let (kind, len) = (request.kind(), request.nr_left());
        let is_transfer = matches!(kind, Kind::Read | Kind::Write) && len != 0;
        if self.happens(faults.interrupted) {
            self.note(flight.number, What::Interrupted);
            return None;
        }
        if self.happens(faults.delayed) {
            let nr = 1 + below(&mut self.rng, 40) as u64;
            flight.due = self.nr_steps + nr;
            self.note(flight.number, What::Delayed(nr));
            return None;
        }
        if self.happens(faults.failed) {
            let is_full = kind == Kind::Write && chance(&mut self.rng, 2);
            let errno = if is_full { libc::ENOSPC } else { libc::EIO };
            let after = if is_transfer { self.part(len) } else { 0 };
            return Some(Plan::Fail { after, errno });
        }
        if is_transfer && self.happens(faults.misdirected) {
            return Some(Plan::Misdirect(self.rng.next_u64()));
        }
        if is_transfer && self.happens(faults.short) {
            return Some(Plan::Part(self.part(len)));
        }
        Some(Plan::Whole)
    }
}

/// Returns the slices that hold the `len` bytes from `off` on, counted over all buffers.
fn part_of<'a, B: Into<RacySource<'a>> + Copy>(
    bufs: &[B],
    (off, len): (usize, usize),
    slice: impl Fn(B, usize, usize) -> B,
) -> Vec<B> {
    let (mut skip, mut left) = (off, len);
    let mut list = Vec::new();
    for &buf in bufs {
        let all = buf.into().len();
        let start = skip.min(all);
        let nr = (all - start).min(left);
        (skip, left) = (skip - start, left - nr);
        list.push(slice(buf, start, nr));
    }
    list
}

fn transfer(job: &Job, pos: u64, len: usize) -> io::Result<usize> {
    let request = job.request();
    caught(|| match request.kind() {
        Kind::Read => {
            let bufs = part_of(&request.buffers(), (0, len), RacyBytes::slice);
            Ok(job.file().read_at(&bufs, pos)?.min(len))
        }
        Kind::Write => {
            let bufs = part_of(&request.sources(), (0, len), RacySource::slice);
            job.file().write_at(&bufs, pos)?;
            Ok(total_len(&bufs))
        }
        _ => Ok(0),
    })
}

/// Writes a random subset of the sectors of a write, and returns their number.
fn tear(job: &Job, rng: &mut Rng) -> usize {
    let request = job.request();
    let (sources, start) = (request.sources(), request.pos());
    let end = start.saturating_add(request.nr_left() as u64);
    let quarters = below(rng, 5);
    let (mut pos, mut nr_written) = (start, 0);
    while pos < end {
        let next = (pos + 1).next_multiple_of(SECTOR as u64).min(end);
        let part = ((pos - start) as usize, (next - pos) as usize);
        if chance(rng, quarters) {
            let bytes = part_of(&sources, part, RacySource::slice);
            nr_written += usize::from(caught(|| job.file().write_at(&bytes, pos)).is_ok());
        }
        pos = next;
    }
    nr_written
}

impl SimEngine {
    /// Creates an engine whose random choices are determined by `seed`.
    #[must_use]
    pub fn new(seed: u64, faults: Faults) -> Self {
        Self {
            state: Mutex::new(State {
                rng: Rng::new(seed),
                faults,
                flights: Vec::new(),
                nr_stepping: 0,
                nr_given: 0,
                nr_steps: 0,
                power_off_at: None,
                is_off: false,
                history: History::new(),
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the fault rates of later steps.
    pub fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    /// Makes the power fail after `nr` more steps, skipped ones included.
    pub fn power_off_after(&self, nr: u64) {
        let mut state = self.lock();
        state.power_off_at = Some(state.nr_steps + nr);
    }

    /// Returns the number of requests in flight.
    #[must_use]
    pub fn nr_in_flight(&self) -> usize {
        let state = self.lock();
        state.flights.len() + state.nr_stepping
    }

    /// Returns all events so far.
    #[must_use]
    pub fn history(&self) -> History {
        self.lock().history.clone()
    }

    /// Makes a step. Returns `false` if no request is in flight, or other threads perform all.
    pub fn step(&self) -> bool {
        let mut state = self.lock();
        if state.power_off_at.is_some_and(|at| state.nr_steps >= at) {
            state.power_off_at = None;
            drop(state);
            self.power_off();
            return true;
        }
        let Some(mut flight) = state.choose() else {
            return false;
        };
        state.nr_steps += 1;
        let Some(plan) = state.plan(&mut flight) else {
            state.flights.push(flight);
            return true;
        };
        state.nr_stepping += 1;
        drop(state);
        self.perform(flight, plan);
        true
    }

    /// Makes a step. If no request can be selected, waits at most `most` until one can.
    pub fn step_or_wait(&self, most: std::time::Duration) {
        if !self.step() {
            let state = self.lock();
            let waited = self
                .changed
                .wait_timeout_while(state, most, |state| state.flights.is_empty());
            drop(waited);
        }
    }

    /// Makes steps until each request is completed, or is being performed by another thread.
    pub fn finish(&self) {
        while self.step() {}
    }

    /// Turns the power off. Requests that no thread is performing fail; their writes may be torn.
    pub fn power_off(&self) {
        let mut state = self.lock();
        state.is_off = true;
        let mut flights = std::mem::take(&mut state.flights);
        flights.sort_by_key(|flight| flight.number);
        let mut rng = state.rng.clone();
        let _ = state.rng.next_u64();
        drop(state);
        for Flight { number, job, .. } in flights {
            let is_write = job.request().kind() == Kind::Write;
            let nr = if is_write { tear(&job, &mut rng) } else { 0 };
            self.lock().note(number, What::PowerOff(nr));
            job.complete(Err(off()));
        }
        self.changed.notify_all();
    }

    /// Turns the power on again, so that later requests are performed.
    pub fn power_on(&self) {
        self.lock().is_off = false;
    }

    /// Performs `plan`. The caller holds no lock.
    fn perform(&self, mut flight: Flight, plan: Plan) {
        let (pos, len) = (flight.job.request().pos(), flight.job.request().nr_left());
        let number = flight.number;
        let (what, result) = match plan {
            Plan::Part(nr) => match transfer(&flight.job, pos, nr) {
                Ok(nr_done) => {
                    flight.job.request_mut().advance(nr_done);
                    let mut state = self.lock();
                    state.note(number, What::Part(nr_done));
                    state.nr_stepping -= 1;
                    state.flights.push(flight);
                    drop(state);
                    self.changed.notify_all();
                    return;
                }
                Err(error) => (What::Done, Err(error)),
            },
            Plan::Whole => (What::Done, flight.job.call()),
            Plan::Fail { after, errno } => {
                let _ = transfer(&flight.job, pos, after);
                (
                    What::Failed(errno),
                    Err(io::Error::from_raw_os_error(errno)),
                )
            }
            Plan::Misdirect(random) => {
                let size = caught(|| flight.job.file().size()).unwrap_or(0);
                let sectors = (size / SECTOR as u64).max(1);
                let to = random % sectors * SECTOR as u64;
                let result = transfer(&flight.job, to, len);
                let nr_done = flight.job.request().nr_done();
                (What::Misdirected(to), result.map(|nr| nr_done + nr))
            }
        };
        let mut state = self.lock();
        state.note(number, what);
        drop(state);
        flight.job.complete(result);
        self.lock().nr_stepping -= 1;
        self.changed.notify_all();
    }
}

fn off() -> io::Error {
    io::Error::other("the power is off")
}

// SAFETY: see `SimLane`. The module names the clauses of `Engine` that are not kept.
#[allow(unsafe_code)]
unsafe impl Trusted for SimEngine {}

impl Engine for SimEngine {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn limits(&self) -> Limits {
        NO_LIMITS
    }

    /// A deferred backend receives the request immediately.
    fn submit(&self, job: Job) {
        let Some(job) = job.defer() else {
            return;
        };
        let mut state = self.lock();
        let (number, due) = (state.nr_given, state.nr_steps);
        state.nr_given += 1;
        if state.is_off {
            state.note(number, What::PowerOff(0));
            drop(state);
            return job.complete(Err(off()));
        }
        state.flights.push(Flight { number, job, due });
        drop(state);
        self.changed.notify_all();
    }

    fn lane(&self) -> Box<dyn Lane + '_> {
        Box::new(SimLane {
            engine: self,
            group: Arc::default(),
            nr_submitted: 0,
            nr_told: 0,
        })
    }

    /// Uses a submission context even for a single job, so that steps perform it.
    fn run(&self, jobs: &mut Vec<Job>) {
        let mut lane = self.lane();
        jobs.drain(..).for_each(|job| lane.submit(job));
        lane.wait(lane.nr_in_flight());
    }
}

impl Drop for SimEngine {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Submission context whose thread makes steps of any requests until enough of its own are done.
struct SimLane<'e> {
    engine: &'e SimEngine,
    group: Arc<Group>,
    nr_submitted: usize,
    nr_told: usize,
}

impl SimLane<'_> {
    fn wait_quietly(&mut self, nr: usize) -> usize {
        let enough = self.nr_told + nr.min(self.nr_in_flight());
        while self.group.nr_done() < enough {
            if !self.engine.step() {
                // Another thread, or a deferred backend, is performing the remaining requests.
                let state = self.engine.lock();
                let short = std::time::Duration::from_millis(1);
                drop(
                    self.engine
                        .changed
                        .wait_timeout_while(state, short, |state| {
                            state.flights.is_empty() && self.group.nr_done() < enough
                        }),
                );
            }
        }
        let nr_done = self.group.nr_done();
        let nr_new = nr_done - self.nr_told;
        self.nr_told = nr_done;
        nr_new
    }
}

// SAFETY: the drop waits for the requests. Backends and completions that panic do not unwind it.
#[allow(unsafe_code)]
unsafe impl Trusted for SimLane<'_> {}

impl Lane for SimLane<'_> {
    fn submit(&mut self, mut job: Job) {
        job.join(&self.group);
        self.nr_submitted += 1;
        self.engine.submit(job);
    }

    fn wait(&mut self, nr: usize) -> usize {
        let nr_new = self.wait_quietly(nr);
        if let Some(panic) = self.group.take_panic() {
            resume_unwind(panic);
        }
        nr_new
    }

    fn nr_in_flight(&self) -> usize {
        self.nr_submitted - self.nr_told
    }
}

impl Drop for SimLane<'_> {
    fn drop(&mut self) {
        self.wait_quietly(self.nr_in_flight());
        // Leak the reported panic, whose drop could panic again.
        std::mem::forget(self.group.take_panic());
    }
}
