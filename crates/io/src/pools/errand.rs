//! Offloaded calls: calls that may block, made by a thread of the cache for a task.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;

use pagewell_sync::parking::Courier;
use pagewell_sync::{Mutex, lock};

use super::engines::Engines;
use crate::engine::WakerThreads;

/// Handle of an offloaded call, held by its task. After the handle's drop, the call is still made.
#[derive(Debug)]
pub struct Errand<T>(Arc<Mutex<State<T>>>);

#[derive(Debug)]
enum State<T> {
    /// The call is queued or running. Holds the waker of the task that polled last.
    Begun(Option<Waker>),
    /// Result or panic of the call. `None` if the call was never made, or its result was taken.
    Done(Option<thread::Result<T>>),
}

struct Caller<T> {
    state: Arc<Mutex<State<T>>>,
    waking: WakerThreads,
}

impl<T> Caller<T> {
    fn finish(&self, outcome: Option<thread::Result<T>>) {
        let mut state = lock(&self.state);
        let before = match &*state {
            State::Begun(_) => mem::replace(&mut *state, State::Done(outcome)),
            State::Done(_) => return,
        };
        drop(state);
        if let State::Begun(Some(waker)) = before {
            self.waking.deliver(vec![waker]);
        }
    }
}

impl<T> Drop for Caller<T> {
    /// Completes the call without a result if it was never made, so that no task waits for it.
    fn drop(&mut self) {
        self.finish(None);
    }
}

impl<T: Send + 'static> Errand<T> {
    /// Submits `call` to the threads for offloaded calls. `key` identifies the file. When the call
    /// is made, its captures are dropped before the task is woken.
    pub fn begin(engines: &Engines, key: usize, call: impl FnOnce() -> T + Send + 'static) -> Self {
        let state = Arc::new(Mutex::new(State::Begun(None)));
        let caller = Caller {
            state: Arc::clone(&state),
            waking: engines.waking().clone(),
        };
        let call = move || caller.finish(Some(catch_unwind(AssertUnwindSafe(call))));
        engines.call(key, Box::new(call));
        Self(state)
    }

    /// Returns the result of the call, once; `None` if the call was never made, or its result was
    /// already returned. While the call is pending, stores the waker. Resumes a panic of the call.
    pub fn poll(&self, context: &Context<'_>) -> Poll<Option<T>> {
        let mut state = lock(&self.0);
        match &mut *state {
            State::Begun(waker) => {
                let is_same = waker
                    .as_ref()
                    .is_some_and(|waker| waker.will_wake(context.waker()));
                if !is_same {
                    // Cloning and dropping a waker runs code of the program.
                    drop(state);
                    return self.leave(context.waker().clone());
                }
                Poll::Pending
            }
            State::Done(outcome) => {
                let outcome = outcome.take();
                drop(state);
                Poll::Ready(told(outcome))
            }
        }
    }

    fn leave(&self, waker: Waker) -> Poll<Option<T>> {
        let mut state = lock(&self.0);
        match &mut *state {
            State::Begun(before) => {
                let before = before.replace(waker);
                drop(state);
                drop(before);
                Poll::Pending
            }
            State::Done(outcome) => {
                let outcome = outcome.take();
                drop(state);
                Poll::Ready(told(outcome))
            }
        }
    }
}

fn told<T>(outcome: Option<thread::Result<T>>) -> Option<T> {
    outcome.map(|outcome| outcome.unwrap_or_else(|panic| resume_unwind(panic)))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::task::Wake;

    use super::*;

    fn poll<T: Send + 'static>(errand: &Errand<T>) -> Poll<Option<T>> {
        errand.poll(&Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_call_is_told_once_with_its_panic() {
        let engines = Engines::default();
        let one = Errand::begin(&engines, 1, || 7);
        let outcome = loop {
            if let Poll::Ready(outcome) = poll(&one) {
                break outcome;
            }
        };
        assert_eq!(outcome, Some(7));
        assert_eq!(poll(&one), Poll::Ready(None));
        let panics = Errand::begin(&engines, 1, || {
            assert!(engines_are_none(), "a call that panics, as it is to");
        });
        let panic = catch_unwind(AssertUnwindSafe(|| while poll(&panics).is_pending() {}));
        assert!(panic.is_err());
    }

    /// A waker may block, so the thread that has made the call does not call it.
    #[test]
    fn the_waker_of_a_call_is_called_by_a_waker_thread() {
        struct Tell(Mutex<mpsc::Sender<Option<String>>>);
        impl Wake for Tell {
            fn wake(self: Arc<Self>) {
                let name = thread::current().name().map(str::to_owned);
                lock(&self.0).send(name).unwrap();
            }
        }
        let engines = Engines::default();
        let (begin, is_begun) = mpsc::channel::<()>();
        let errand = Errand::begin(&engines, 1, move || is_begun.recv());
        let (tell, is_told) = mpsc::channel();
        let waker = Waker::from(Arc::new(Tell(Mutex::new(tell))));
        assert!(errand.poll(&Context::from_waker(&waker)).is_pending());
        begin.send(()).unwrap();
        let name = is_told.recv().unwrap();
        assert_eq!(name.as_deref(), Some("pagewell-wakers"));
        assert_eq!(poll(&errand), Poll::Ready(Some(Ok(()))));
    }

    fn engines_are_none() -> bool {
        std::hint::black_box(false)
    }

    #[test]
    fn a_call_that_is_never_made_is_told_too() {
        let state = Arc::new(Mutex::new(State::<u32>::Begun(None)));
        let errand = Errand(Arc::clone(&state));
        let waking = WakerThreads::new();
        let caller = Caller { state, waking };
        assert!(poll(&errand).is_pending());
        drop(caller);
        assert_eq!(poll(&errand), Poll::Ready(None));
    }
}
