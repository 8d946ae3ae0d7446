//! The write-back of one file as its throttled writers see it: what it is doing, how its last attempt ended.
//!
//! Place. Whoever holds the file's writeback lock says here which call of the storage or of the hook it is in
//! ([`Service::begin_step`]). A thread of the cache that cleans the file says when an attempt begins, and how it ends
//! ([`Service::begin_attempt`]). A writer at the file's share waits for an attempt, and gives up when no call has returned for a
//! while ([`super::pressure`]): so a storage that hangs, or a hook that blocks, is told apart from one that is slow.
//!
//! A model has neither time nor threads of the cache; there this does nothing.

use std::fmt;
#[cfg(not(loom))]
use std::time::Duration;

#[cfg(not(loom))]
use pagewell_sync::time::Instant;
#[cfg(not(loom))]
use pagewell_sync::{Mutex, MutexGuard};

use crate::base::error::Cause;
#[cfg(not(loom))]
use crate::dirty::attendance::Attendance;
#[cfg(not(loom))]
use crate::dirty::calls::Call;
use crate::dirty::errors::Noted;
use crate::dirty::pressure::Pressure;

/// A call by the holder of the writeback lock, which it may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Of the program's hook.
    Hook,
    /// Of the storage: a write.
    Write,
    /// Of the storage: a sync.
    Sync,
    /// Of the storage: a change of size.
    Resize,
    /// Of the storage, by a reader: a page that is read in cannot be taken out.
    Read,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hook => "its hook has not returned",
            Self::Write => "its storage has not answered a write",
            Self::Sync => "its storage has not answered a sync",
            Self::Resize => "its storage has not answered a change of size",
            Self::Read => "its storage has not answered a read",
        })
    }
}

/// Why an attempt has not cleaned all that it was to clean.
#[derive(Clone, Debug)]
pub(crate) struct Obstacle {
    /// What it said.
    pub(crate) text: String,
    /// What the storage said, or the hook, if one of them has failed.
    pub(crate) source: Option<Noted>,
    /// Some if the handles of the file are told of it too, each once.
    pub(crate) noted: Option<Cause>,
}

/// How long a writer waits after an attempt that failed before it asks for the next one.
#[cfg(not(loom))]
const PAUSE_OF_WRITERS: Duration = Duration::from_millis(100);

/// How often the pause is doubled before the threads of the cache try again by themselves: up to some seconds.
#[cfg(not(loom))]
const MOST_DOUBLINGS: u32 = 5;

/// What is known of one file's write-back.
#[derive(Debug, Default)]
pub(crate) struct Service {
    /// Whether the file is called for. So one thread at most is at the file, however long it hangs there.
    #[cfg(not(loom))]
    attendance: Attendance,
    #[cfg(not(loom))]
    state: Mutex<State>,
}

#[cfg(not(loom))]
#[derive(Debug, Default)]
struct State {
    /// The call that is under way, and since when.
    step: Option<(Step, Instant)>,
    /// When the last call returned.
    last_return: Option<Instant>,
    /// Whether the next attempt is to make everything durable, whatever is dirty.
    is_urgent: bool,
    nr_begun: u64,
    /// When the last attempt failed, and how many did before it in a row.
    failures: Option<(Instant, u32)>,
    /// The attempt that ended last, and how, if it failed.
    ended: Option<(u64, Option<Obstacle>)>,
}

/// A call of the storage or of the hook is under way.
#[must_use]
pub(crate) struct InStep<'s> {
    #[cfg_attr(loom, allow(dead_code))]
    service: &'s Service,
    #[cfg_attr(loom, allow(dead_code))]
    pressure: &'s Pressure,
}

/// An attempt of a thread of the cache to clean the file; it ends when this is dropped.
#[cfg(not(loom))]
#[must_use]
pub(crate) struct Attempt<'s> {
    service: &'s Service,
    pressure: &'s Pressure,
    number: u64,
    nr: u64,
    /// Whether everything is to be made durable.
    pub(crate) is_urgent: bool,
    outcome: Outcome,
}

/// How an attempt has ended.
#[cfg(not(loom))]
#[derive(Debug)]
enum Outcome {
    /// It has cleaned what it was to clean, or has not.
    Done(Option<Obstacle>),
    /// It was none: it came too early after one that failed.
    Skipped,
}

/// How long a thread waits for calls that do not return.
#[cfg(not(loom))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// For one that was under way already, from now on.
    pub(crate) with_old: Duration,
    /// For any call, from its begin on; and for a thread of the cache to begin.
    pub(crate) with_new: Duration,
}

/// What a waiting thread finds.
#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) enum Finding {
    /// An attempt that began after the thread did has cleaned the file.
    Cleaned,
    /// An attempt that began after the thread did has failed.
    Failed(Obstacle),
    /// A call has not returned for so long.
    Stalled(Step, Duration),
    /// An attempt has begun, and waits for another operation on the file.
    Blocked,
    /// No attempt has begun for so long: all threads of the cache are at work.
    NoThread,
    /// To wait at most so long for the next change.
    Wait(Duration),
}

#[cfg(loom)]
impl Service {
    pub(crate) fn begin_step<'s>(&'s self, pressure: &'s Pressure, _: Step) -> InStep<'s> {
        InStep {
            service: self,
            pressure,
        }
    }
}

#[cfg(not(loom))]
impl Service {
    /// The holder of the writeback lock calls the storage, or the hook, until the answer is dropped.
    pub(crate) fn begin_step<'s>(&'s self, pressure: &'s Pressure, step: Step) -> InStep<'s> {
        self.lock().step = Some((step, Instant::now()));
        InStep {
            service: self,
            pressure,
        }
    }

    /// Notes that the file is to be cleaned. Whether a thread of the cache is to be called: otherwise one was called already, or is
    /// at the file and will be called again.
    #[must_use]
    pub(crate) fn note_call(&self) -> bool {
        self.attendance.call()
    }

    /// Has the next attempt make everything durable; the number of the last attempt that does not know of it.
    pub(crate) fn note_urgent(&self) -> u64 {
        let mut state = self.lock();
        state.is_urgent = true;
        state.nr_begun
    }

    /// See [`Attendance::forget_call`].
    pub(crate) fn forget_call(&self) {
        self.attendance.forget_call();
    }

    /// Takes the call for file number `number`. Later calls are for the next attempt. None if another thread is at the file: it
    /// calls again when it is done.
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

    /// How long to wait before the next attempt: after a failure, which is told to those who wait, the next ones are further and
    /// further apart.
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

    /// Why the last attempt failed, if it is too early for another one.
    pub(crate) fn recent_obstacle(&self) -> Option<Obstacle> {
        if self.pause(true) == Duration::ZERO {
            return None;
        }
        let (_, obstacle) = self.lock().ended.clone()?;
        obstacle
    }

    /// What a thread finds that began to wait at `began`, after attempt number `nr` had begun.
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

    fn lock(&self) -> MutexGuard<'_, State> {
        pagewell_sync::lock(&self.state)
    }
}

#[cfg(not(loom))]
impl Drop for InStep<'_> {
    fn drop(&mut self) {
        let mut state = self.service.lock();
        state.step = None;
        state.last_return = Some(Instant::now());
        drop(state);
        self.pressure.changed.tell();
    }
}

#[cfg(not(loom))]
impl Attempt<'_> {
    /// The attempt has ended, well or with a failure. One that is dropped without this was none.
    pub(crate) fn end(mut self, obstacle: Option<Obstacle>) {
        self.outcome = Outcome::Done(obstacle);
    }
}

#[cfg(not(loom))]
impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if let Outcome::Done(obstacle) = std::mem::replace(&mut self.outcome, Outcome::Skipped) {
            let mut state = self.service.lock();
            let before = state.failures.map_or(0, |(_, nr)| nr.saturating_add(1));
            state.failures = obstacle.as_ref().map(|_| (Instant::now(), before));
            state.ended = Some((self.nr, obstacle));
        }
        if self.service.attendance.leave() {
            // For writers that wait, if there are any: the next attempt finds out.
            self.pressure.calls.call(Call::CleanNow(self.number));
        }
        self.pressure.changed.tell();
    }
}
