//! Writeback state of one file, as its throttled writers see it: the call in progress and the
//! outcome of the last attempt.
//!
//! The holder of the file's writeback lock records each call of the backend or of the callback
//! ([`Service::begin_step`]), and a flusher records the start and the outcome of each attempt
//! ([`Service::begin_attempt`]). A writer at the file's quota waits for an attempt, and gives up if
//! a call does not return in time ([`Patience`]). This distinguishes a backend that hangs, or a
//! callback that blocks, from a slow one.

use std::fmt;
use std::time::Duration;

use pagewell_sync::time::Instant;
use pagewell_sync::{RecordGuard, RecordMutex, lock_record};

use crate::base::error::Cause;
use crate::dirty::calls::{Attendance, Call};
use crate::dirty::errors::Noted;
use crate::dirty::pressure::Pressure;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Hook,
    Write,
    /// The start of the writeback of some bytes, which a sync completes.
    BeginSync,
    Sync,
    Resize,
    /// The thread removes a page and waits for its fill, in which another thread reads the backend.
    Read,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hook => "its writeback callback has not returned",
            Self::Write => "its backend has not completed a write",
            Self::BeginSync | Self::Sync => "its backend has not completed a sync",
            Self::Resize => "its backend has not completed a change of size",
            Self::Read => "its backend has not completed a read",
        })
    }
}

impl Step {
    /// Whether the call may clean or remove pages, so that threads that wait for clean pages are
    /// notified. The pages that a flush writes, by many calls, become clean together at its sync.
    fn may_clean(self) -> bool {
        match self {
            Self::Sync | Self::Resize | Self::Read => true,
            Self::Hook | Self::Write | Self::BeginSync => false,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Obstacle {
    pub(crate) text: String,
    pub(crate) source: Option<Noted>,
    /// Cause of the failure, if each handle of the file reports the error too, once.
    pub(crate) noted: Option<Cause>,
}

/// Time after a failed attempt before a writer requests the next one.
const PAUSE_OF_WRITERS: Duration = Duration::from_millis(100);

/// Maximum number of doublings of the pause between attempts, so that it is at most some seconds.
const MOST_DOUBLINGS: u32 = 5;

#[derive(Debug, Default)]
pub(crate) struct Service {
    /// At most one flusher attends to the file, however long it hangs.
    attendance: Attendance,
    state: RecordMutex<State>,
}

#[derive(Debug, Default)]
struct State {
    step: Option<(Step, Instant)>,
    last_return: Option<Instant>,
    /// Whether the next attempt must make everything durable, even if little is dirty.
    is_urgent: bool,
    nr_begun: u64,
    /// Time of the last attempt, if it failed, and the number of consecutive failures before it.
    failures: Option<(Instant, u32)>,
    /// Number of the attempt that ended last, with the reason if it failed.
    ended: Option<(u64, Option<Obstacle>)>,
}

#[must_use]
pub(crate) struct InStep<'s> {
    service: &'s Service,
    pressure: &'s Pressure,
    step: Step,
}

#[must_use]
pub(crate) struct Attempt<'s> {
    service: &'s Service,
    pressure: &'s Pressure,
    number: u64,
    nr: u64,
    pub(crate) is_urgent: bool,
    outcome: Outcome,
}

#[derive(Debug)]
enum Outcome {
    /// The attempt has succeeded (`None`), or has failed.
    Done(Option<Obstacle>),
    /// Skipped: too little time had passed since a failure.
    Skipped,
}

/// Time limits of a thread that waits for calls that do not return.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Maximum time from the start of the wait, for a call that was in progress at that start.
    pub(crate) with_old: Duration,
    /// Maximum duration of a call, and maximum time until the next call or attempt starts.
    pub(crate) with_new: Duration,
}

#[derive(Debug)]
pub(crate) enum Finding {
    /// An attempt that began during the wait has cleaned the file.
    Cleaned,
    /// An attempt that began during the wait has failed.
    Failed(Obstacle),
    /// The call in progress has not returned for this duration.
    Stalled(Step, Duration),
    /// An attempt has begun, but makes no call: it waits for another operation on the file.
    Blocked,
    /// No attempt has begun within the limit: all flushers are busy.
    NoThread,
    Wait(Duration),
}

impl Service {
    /// Records a call of the backend or the callback. The caller holds the writeback lock.
    pub(crate) fn begin_step<'s>(&'s self, pressure: &'s Pressure, step: Step) -> InStep<'s> {
        self.lock().step = Some((step, Instant::now()));
        InStep {
            service: self,
            pressure,
            step,
        }
    }

    #[must_use]
    pub(crate) fn note_call(&self) -> bool {
        self.attendance.call()
    }

    /// Requests that the next attempt make everything durable. Returns the number of the last
    /// attempt that began before this request.
    pub(crate) fn note_urgent(&self) -> u64 {
        let mut state = self.lock();
        state.is_urgent = true;
        state.nr_begun
    }

    pub(crate) fn forget_call(&self) {
        self.attendance.forget_call();
    }

    /// Takes the request for file `number`, unless another thread attends to the file.
    pub(crate) fn begin_attempt<'s>(
        &'s self,
        pressure: &'s Pressure,
        number: u64,
    ) -> Option<Attempt<'s>> {
        if !self.attendance.attend() {
            return None;
        }
        let mut state = self.lock();
        state.nr_begun += 1;
        Some(Attempt {
            service: self,
            pressure,
            number,
            nr: state.nr_begun,
            is_urgent: std::mem::take(&mut state.is_urgent),
            outcome: Outcome::Skipped,
        })
    }

    /// Returns the pause before the next attempt. Without urgency, it grows with failures.
    pub(crate) fn pause(&self, is_urgent: bool) -> Duration {
        let state = self.lock();
        let Some((at, nr)) = state.failures else {
            return Duration::ZERO;
        };
        let pause = if is_urgent {
            PAUSE_OF_WRITERS
        } else {
            PAUSE_OF_WRITERS * (2 << nr.min(MOST_DOUBLINGS))
        };
        pause.saturating_sub(at.elapsed())
    }

    /// Returns the last attempt's obstacle, until the pause before an urgent attempt has passed.
    pub(crate) fn recent_obstacle(&self) -> Option<Obstacle> {
        if self.pause(true) == Duration::ZERO {
            return None;
        }
        let (_, obstacle) = self.lock().ended.clone()?;
        obstacle
    }

    /// Returns the state for a thread that began to wait at `began`, after attempt `nr` had begun.
    pub(crate) fn look(&self, began: Instant, nr: u64, patience: Patience) -> Finding {
        let state = self.lock();
        match &state.ended {
            Some((ended, None)) if *ended > nr => return Finding::Cleaned,
            Some((ended, Some(failure))) if *ended > nr => {
                return Finding::Failed(failure.clone());
            }
            _ => {}
        }
        let rest = |patience: Duration, since: Instant| {
            let rest = patience.saturating_sub(since.elapsed());
            (rest != Duration::ZERO).then_some(rest)
        };
        let Some((step, since)) = state.step else {
            let since = state.last_return.map_or(began, |at| at.max(began));
            let is_begun = state.nr_begun > nr;
            return match rest(patience.with_new, since) {
                Some(rest) => Finding::Wait(rest),
                None if is_begun => Finding::Blocked,
                None => Finding::NoThread,
            };
        };
        let mut rest_of_call = rest(patience.with_new, since);
        if since < began {
            let of_old = rest(patience.with_old, began);
            rest_of_call = rest_of_call.zip(of_old).map(|(new, old)| new.min(old));
        }
        rest_of_call.map_or(Finding::Stalled(step, since.elapsed()), Finding::Wait)
    }

    fn lock(&self) -> RecordGuard<'_, State> {
        lock_record(&self.state)
    }
}

impl Drop for InStep<'_> {
    fn drop(&mut self) {
        let mut state = self.service.lock();
        state.step = None;
        state.last_return = Some(Instant::now());
        drop(state);
        if self.step.may_clean() {
            self.pressure.changed.tell();
        }
    }
}

impl Attempt<'_> {
    /// An attempt that is dropped without this call counts as skipped.
    pub(crate) fn end(mut self, obstacle: Option<Obstacle>) {
        self.outcome = Outcome::Done(obstacle);
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if let Outcome::Done(obstacle) = std::mem::replace(&mut self.outcome, Outcome::Skipped) {
            let mut state = self.service.lock();
            let before = state.failures.map_or(0, |(_, nr)| nr.saturating_add(1));
            state.failures = obstacle.as_ref().map(|_| (Instant::now(), before));
            state.ended = Some((self.nr, obstacle));
        }
        if self.service.attendance.leave() {
            // Writers may be waiting. The next attempt determines the work to do.
            self.pressure.calls.call(Call::CleanNow(self.number));
        }
        self.pressure.changed.tell();
    }
}
