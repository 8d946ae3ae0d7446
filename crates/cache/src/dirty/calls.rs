//! Calls for the threads of the cache: which files are to be cleaned, or closed; who takes them.
//!
//! Place. Writers call when a file has many pages that are not clean; a hook's thread calls when it has left a file to be closed;
//! the watcher calls for what is due. The threads that take the calls are those of `files::flushers`.
//!
//! Protocol. A thread that takes a call is *busy* until it says that it is done. A caller that stops the calls
//! ([`Calls::stop`]) waits until no thread is busy, and none takes a call before it lets them go on. Until it has come so far
//! only calls are taken for which somebody waits: a thread that is busy may hang.
//!
//! Locks. The lock is held for a few steps, and its holder waits for nothing. So claims may be held.

#[cfg(not(loom))]
use std::collections::VecDeque;
#[cfg(not(loom))]
use std::sync::PoisonError;
#[cfg(not(loom))]
use std::time::Duration;

#[cfg(not(loom))]
use pagewell_sync::time::Instant;
#[cfg(not(loom))]
use pagewell_sync::{Condvar, Mutex, MutexGuard};

/// What a thread of the cache is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Write back the file with this number.
    Clean(u64),
    /// The same, for a thread that waits for it.
    CleanNow(u64),
    /// Close one of the files that were left to be closed.
    Close,
}

/// The calls that no thread has taken yet, and the threads that take them.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    #[cfg(not(loom))]
    state: Mutex<State>,
    /// Told when there is a call, and when calls go on.
    #[cfg(not(loom))]
    called: Condvar,
    /// Told when a call has come for which no thread is idle, when a thread is done, and when the calls are over.
    #[cfg(not(loom))]
    watched: Condvar,
}

#[cfg(not(loom))]
#[derive(Debug, Default)]
struct State {
    queue: VecDeque<(Call, Instant)>,
    nr_threads: usize,
    nr_idle: usize,
    nr_busy: usize,
    /// How many want the calls to be stopped.
    nr_stops: usize,
    /// Whether they are: no thread has been busy since.
    are_stopped: bool,
    is_over: bool,
}

#[cfg(not(loom))]
impl State {
    /// Where the first call is in the queue that may be taken.
    fn next(&self) -> Option<usize> {
        if self.are_stopped {
            return None;
        }
        let may_take = |call: &Call| self.nr_stops == 0 || matches!(call, Call::CleanNow(_));
        self.queue.iter().position(|(call, _)| may_take(call))
    }
}

/// What the watcher has to do.
#[cfg(not(loom))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    /// To look for files that are due.
    Round,
    /// To start one more thread: a call has waited since all were at work.
    MoreThreads,
    /// To end.
    Over,
}

/// Calls are stopped as long as this exists.
#[derive(Debug)]
#[must_use]
pub(crate) struct Stopped<'c>(#[cfg_attr(loom, allow(dead_code))] &'c Calls);

#[cfg(loom)]
impl Calls {
    /// In a model there is no thread.
    pub(crate) fn call(&self, _: Call) {}

    pub(crate) fn stop(&self) -> Stopped<'_> {
        Stopped(self)
    }
}

#[cfg(not(loom))]
impl Calls {
    /// Has a thread of the cache take `call` soon.
    pub(crate) fn call(&self, call: Call) {
        let mut state = self.lock();
        state.queue.push_back((call, Instant::now()));
        if state.queue.len() > state.nr_idle {
            // The watcher counts how long the call waits.
            self.watched.notify_all();
        }
        drop(state);
        self.called.notify_one();
    }

    /// Ends the threads. Calls that nobody has taken are not taken any more.
    pub(crate) fn end(&self) {
        self.lock().is_over = true;
        self.called.notify_all();
        self.watched.notify_all();
    }

    /// The next call; the thread is busy then. None if there was none for `patience`, or the calls are over: then the thread is to
    /// end, and does not count any more.
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
            // No other thread has been told of the rest.
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

    /// The thread has done what it was called for.
    pub(crate) fn done(&self) {
        self.lock().nr_busy -= 1;
        self.watched.notify_all();
    }

    /// Counts a thread that is about to be started, unless there are `most`.
    pub(crate) fn add_thread(&self, most: usize) -> bool {
        let mut state = self.lock();
        let is_allowed = state.nr_threads < most;
        state.nr_threads += usize::from(is_allowed);
        is_allowed
    }

    /// The thread could not be started.
    pub(crate) fn remove_thread(&self) {
        self.lock().nr_threads -= 1;
    }

    /// Whether somebody has stopped the calls.
    pub(crate) fn are_stopped(&self) -> bool {
        self.lock().are_stopped
    }

    /// Whether somebody wants to stop the calls.
    pub(crate) fn are_to_stop(&self) -> bool {
        self.lock().nr_stops != 0
    }

    /// Waits until there is something for the watcher to do: a round after `interval`, or more threads when a call has waited for
    /// `delay`.
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
                    // If there can be no more, this is tried again after as long.
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

    /// Waits until no thread is busy, and keeps calls from being taken until the answer is dropped.
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

#[cfg(not(loom))]
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

#[cfg(all(test, not(loom)))]
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
            // Only what somebody waits for is begun meanwhile.
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
