//! Requests to the flushers (`files::flushers`): files to write back or to close ([`Calls`]), at
//! most one in the queue for each file to write back ([`Attendance`]).
//!
//! Protocol. A thread that takes a request is *busy* until it calls [`Calls::done`]. A caller of
//! [`Calls::stop`] waits until no thread is busy; then no request is taken until all returned
//! guards are dropped. During the wait, threads take only requests for whose result another thread
//! waits ([`Call::CleanNow`]), since a busy thread may hang.
//!
//! Locks. The holder of the lock waits for nothing, so a thread that holds claims may acquire it.
//!
//! Verified by `loom_stop_vs_take`.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::time::Duration;

use pagewell_sync::atomic::{AtomicUsize, Ordering};
use pagewell_sync::scaled;
use pagewell_sync::time::Instant;
use pagewell_sync::{Condvar, Mutex, MutexGuard};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Clean(u64),
    /// Write back the file with this number, for a thread that waits for the result.
    CleanNow(u64),
    /// Drop a strong reference that a callback or a codec has left to the flushers.
    Close,
}

#[derive(Debug, Default)]
pub(crate) struct Calls {
    state: Mutex<State>,
    /// Notified when a request is added, when the requests resume, and when the threads must end.
    called: Condvar,
    /// Notified when a request finds no idle thread, when a thread is done, when the requests
    /// resume, and when the threads must end.
    watched: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<(Call, Instant)>,
    nr_threads: usize,
    nr_idle: usize,
    nr_busy: usize,
    /// Number of callers that hold or wait for a [`Stopped`].
    nr_stops: usize,
    /// Implies that no thread is busy.
    are_stopped: bool,
    is_over: bool,
}

impl State {
    fn next(&self) -> Option<usize> {
        if self.are_stopped {
            return None;
        }
        let may_take = |call: &Call| self.nr_stops == 0 || matches!(call, Call::CleanNow(_));
        self.queue.iter().position(|(call, _)| may_take(call))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    Round,
    /// Start one more thread: a request has waited too long while no thread was idle.
    MoreThreads,
    Over,
}

#[derive(Debug)]
#[must_use]
pub(crate) struct Stopped<'c>(&'c Calls);

impl Calls {
    pub(crate) fn call(&self, call: Call) {
        let mut state = self.lock();
        state.queue.push_back((call, Instant::now()));
        if state.queue.len() > state.nr_idle {
            self.watched.notify_all();
        }
        drop(state);
        self.called.notify_one();
    }

    /// Makes the flusher threads and the watcher end. Requests in the queue are not executed.
    pub(crate) fn end(&self) {
        self.lock().is_over = true;
        self.called.notify_all();
        self.watched.notify_all();
    }

    /// Takes the next request and makes the thread busy. Returns `None` if no request came within
    /// `patience`, or if the threads must end. The thread is then no longer counted, and must end.
    pub(crate) fn take(&self, patience: Duration) -> Option<Call> {
        let mut state = self.lock();
        state.nr_idle += 1;
        let waited = self.called.wait_timeout_while(state, patience, |state| {
            state.next().is_none() && !state.is_over
        });
        (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.nr_idle -= 1;
        let call = match state.next() {
            Some(at) if !state.is_over => state.queue.remove(at),
            _ => None,
        };
        if state.nr_idle == 0 && state.next().is_some() {
            // No other thread was notified of the remaining requests, so the watcher checks them.
            self.watched.notify_all();
        }
        match call {
            Some((call, _)) => {
                state.nr_busy += 1;
                Some(call)
            }
            None => {
                state.nr_threads -= 1;
                None
            }
        }
    }

    pub(crate) fn done(&self) {
        self.lock().nr_busy -= 1;
        self.watched.notify_all();
    }

    /// Counts a thread to be started. Returns `false` if `most` threads exist already.
    pub(crate) fn add_thread(&self, most: usize) -> bool {
        let mut state = self.lock();
        let is_allowed = state.nr_threads < most;
        state.nr_threads += usize::from(is_allowed);
        is_allowed
    }

    /// Reverts [`add_thread`](Self::add_thread) for a thread that could not be started.
    pub(crate) fn remove_thread(&self) {
        self.lock().nr_threads -= 1;
    }

    /// Always `true` in a model, which has no flushers: a thread that lacks frames because pages
    /// are dirty gets an error there, and does not wait for them to be cleaned.
    pub(crate) fn are_stopped(&self) -> bool {
        scaled(false, true) || self.lock().are_stopped
    }

    pub(crate) fn are_to_stop(&self) -> bool {
        self.lock().nr_stops != 0
    }

    /// Waits until `interval` has passed, or a request has waited for `delay`.
    pub(crate) fn watch(&self, interval: Duration, delay: Duration) -> Watch {
        let next = Instant::now() + interval;
        let mut state = self.lock();
        loop {
            if state.is_over {
                return Watch::Over;
            }
            let now = Instant::now();
            if now >= next {
                return Watch::Round;
            }
            let mut until = next;
            if state.nr_idle == 0
                && let Some(at) = state.next()
                && let Some((_, called)) = state.queue.get_mut(at)
            {
                let at = *called + delay;
                if now >= at {
                    // If no thread can be added, the watcher tries again after `delay`.
                    *called = now;
                    return Watch::MoreThreads;
                }
                until = until.min(at);
            }
            (state, _) = self
                .watched
                .wait_timeout(state, until - now)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn stop(&self) -> Stopped<'_> {
        let mut state = self.lock();
        state.nr_stops += 1;
        state = self
            .watched
            .wait_while(state, |state| state.nr_busy != 0)
            .unwrap_or_else(PoisonError::into_inner);
        state.are_stopped = true;
        drop(state);
        Stopped(self)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        pagewell_sync::lock(&self.state)
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.nr_stops -= 1;
        state.are_stopped = state.nr_stops != 0;
        drop(state);
        self.0.called.notify_all();
        self.0.watched.notify_all();
    }
}

const CALLED: usize = 1 << 0;
const ATTENDED: usize = 1 << 1;

/// Request and attendance state of one file, in one word.
///
/// Protocol. A caller sets *called*; if the word was zero, the caller queues a request for the
/// file. A flusher that takes the request sets *attended*, and then clears *called*: later requests
/// are for the next attempt. At the end of the attempt, the flusher clears *attended*, and queues
/// the next request if *called* was set in between.
///
/// So a file has one request in the queue, or one flusher, or neither. After each request an
/// attempt begins that sees the caller's earlier stores. A hanging call of the backend occupies one
/// flusher, since later callers find a nonzero word. While the file has no strong reference, a
/// request may be lost or queued twice ([`Attendance::forget_call`]).
///
/// Verified by `loom_call_vs_attend`.
#[derive(Debug, Default)]
pub(crate) struct Attendance(AtomicUsize);

impl Attendance {
    /// Returns `true` if the caller must queue the request.
    #[must_use]
    pub(crate) fn call(&self) -> bool {
        // ORDERING: AcqRel; the release pairs with the acquire in `attend`: the attempt sees the
        // earlier stores of this thread, even if another one queued the request.
        self.0.fetch_or(CALLED, Ordering::AcqRel) == 0
    }

    /// Begins an attempt. Returns `false` if another flusher attends, which will see the request.
    #[must_use]
    pub(crate) fn attend(&self) -> bool {
        // ORDERING: AcqRel; the acquire pairs with the release in `leave` of the previous attempt.
        if self.0.fetch_or(ATTENDED, Ordering::AcqRel) & ATTENDED != 0 {
            return false;
        }
        // ORDERING: AcqRel; see `call`.
        self.0.fetch_and(!CALLED, Ordering::AcqRel);
        true
    }

    /// Ends the attempt. Returns `true` if the caller must queue the next request.
    #[must_use]
    pub(crate) fn leave(&self) -> bool {
        // ORDERING: AcqRel; see `attend`, and `call`.
        self.0.fetch_and(!ATTENDED, Ordering::AcqRel) & CALLED != 0
    }

    /// Clears a request that was lost because the file had no strong reference.
    pub(crate) fn forget_call(&self) {
        // ORDERING: Relaxed. The requesting thread dropped its strong reference (release) before
        // the caller acquired its own (acquire, `Users::add_share`), so this update follows the
        // request in the modification order. If the request is in the queue nevertheless, the next
        // call adds a second one, which does no harm.
        self.0.fetch_and(!CALLED, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(1);
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn calls_are_taken_in_order_and_a_thread_without_one_ends() {
        let calls = Calls::default();
        assert!(calls.add_thread(1));
        assert!(!calls.add_thread(1));
        calls.call(Call::Clean(7));
        calls.call(Call::Close);
        for call in [Call::Clean(7), Call::Close] {
            assert_eq!(calls.take(LONG), Some(call));
            calls.done();
        }
        assert_eq!(calls.take(SHORT), None);
        assert!(calls.add_thread(1), "the thread counts no more");
    }

    #[test]
    fn a_call_that_waits_while_all_are_at_work_asks_for_more_threads() {
        let calls = Calls::default();
        assert_eq!(calls.watch(SHORT, SHORT), Watch::Round);
        assert!(calls.add_thread(2));
        calls.call(Call::Clean(1));
        assert_eq!(calls.take(LONG), Some(Call::Clean(1)));
        calls.call(Call::Clean(2));
        assert_eq!(calls.watch(LONG, SHORT), Watch::MoreThreads);
        calls.end();
        assert_eq!(calls.watch(LONG, SHORT), Watch::Over);
    }

    #[test]
    fn who_stops_the_calls_waits_for_those_at_work_and_keeps_the_others() {
        let calls = Calls::default();
        assert!(calls.add_thread(2) && calls.add_thread(2));
        calls.call(Call::Clean(1));
        assert_eq!(calls.take(LONG), Some(Call::Clean(1)));
        std::thread::scope(|scope| {
            let stopper = scope.spawn(|| {
                let stopped = calls.stop();
                assert_eq!(calls.lock().nr_busy, 0);
                calls.call(Call::CleanNow(4));
                assert!(calls.lock().next().is_none());
                drop(stopped);
            });
            while !calls.are_to_stop() {
                std::thread::yield_now();
            }
            calls.call(Call::Clean(2));
            calls.call(Call::CleanNow(3));
            assert_eq!(calls.take(LONG), Some(Call::CleanNow(3)));
            calls.done();
            assert!(!calls.are_stopped());
            calls.done();
            stopper.join().unwrap();
        });
        assert_eq!(calls.take(LONG), Some(Call::Clean(2)));
        assert_eq!(calls.take(LONG), Some(Call::CleanNow(4)));
    }
}
