//! Waiting for other threads, with a limit: a test that hangs tells nothing.

use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// The environment variable with the factor, a positive number, by which every limit of time is multiplied: for machines
/// that are slow, or busy with other work.
pub const VARIABLE: &str = "PAGEWELL_PATIENCE";

/// The limit of an operation that usually takes milliseconds, before the factor of the environment.
const LIMIT: Duration = Duration::from_secs(30);

/// The time limit of an operation that usually takes milliseconds.
///
/// # Panics
///
/// If the factor of the environment is not a positive number.
#[must_use]
pub fn limit() -> Duration {
    scaled(LIMIT)
}

/// `limit`, multiplied by the factor of the environment.
///
/// # Panics
///
/// If the factor of the environment is not a positive number.
#[must_use]
pub fn scaled(limit: Duration) -> Duration {
    match std::env::var(VARIABLE) {
        Ok(text) => match parse(&text) {
            Some(factor) => limit.mul_f64(factor),
            None => panic!("{VARIABLE}={text}: not a positive number"),
        },
        Err(_) => limit,
    }
}

/// A factor between a thousandth and a thousand.
fn parse(text: &str) -> Option<f64> {
    let factor = text.parse::<f64>().ok()?;
    (0.001..=1000.0).contains(&factor).then_some(factor)
}

/// Unparks a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// An executor of one thread and one task, which sleeps until the task is woken.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => thread::park(),
        }
    }
}

/// Runs `body` on a thread of its own, and returns its result; a panic of it is passed on.
///
/// # Panics
///
/// When it takes longer than [`limit`]; the thread is left behind then.
#[track_caller]
pub fn bounded<T: Send + 'static>(what: &str, body: impl FnOnce() -> T + Send + 'static) -> T {
    bounded_by(LIMIT, what, body)
}

/// As [`bounded`], with another limit.
///
/// # Panics
///
/// When it takes longer than `limit`, [scaled]; the thread is left behind then.
#[track_caller]
pub fn bounded_by<T: Send + 'static>(
    limit: Duration,
    what: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> T {
    let limit = scaled(limit);
    let (done, is_done) = mpsc::channel();
    let worker = thread::spawn(move || {
        let result = body();
        // If the limit has passed, the receiver is gone, and the result is dropped.
        let _ = done.send(());
        result
    });
    if is_done.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
        panic!("{what}: still not done after {limit:?}");
    }
    match worker.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Checks for 50 ms that `is_so` stays false. A test cannot see that a thread waits, but it can see that the thread does
/// not. If the thread has not come so far meanwhile, nothing is shown.
///
/// # Panics
///
/// When `is_so` returns true.
#[track_caller]
pub fn not_yet(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..50 {
        thread::sleep(Duration::from_millis(1));
        assert!(!is_so(), "{what}");
    }
}

/// Checks again and again until `is_so` returns true.
///
/// # Panics
///
/// When it still returns false after [`limit`].
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let (start, limit) = (Instant::now(), limit());
    while !is_so() {
        assert!(start.elapsed() < limit, "{what}: not so after {limit:?}");
        thread::yield_now();
    }
}

/// A point that threads reach and cannot pass until it is opened, so that a test can hold them there.
#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    nr_arrived: usize,
    is_open: bool,
}

impl Gate {
    /// A closed gate that nobody has reached.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[track_caller]
    fn wait_while(&self, what: &str, mut must_wait: impl FnMut(&GateState) -> bool) {
        let limit = limit();
        let (state, timeout) = self
            .changed
            .wait_timeout_while(self.lock(), limit, |state| must_wait(state))
            .unwrap_or_else(PoisonError::into_inner);
        drop(state);
        assert!(!timeout.timed_out(), "{what}: not so after {limit:?}");
    }

    /// Reaches the gate, and goes on when it is open.
    ///
    /// # Panics
    ///
    /// When it is not opened within [`limit`].
    #[track_caller]
    pub fn pass(&self) {
        self.lock().nr_arrived += 1;
        self.changed.notify_all();
        self.wait_while("the gate is open", |state| !state.is_open);
    }

    /// Waits until `nr` threads have reached the gate.
    ///
    /// # Panics
    ///
    /// When they have not within [`limit`].
    #[track_caller]
    pub fn wait_for(&self, nr: usize) {
        self.wait_while("enough threads are at the gate", |state| {
            state.nr_arrived < nr
        });
    }

    /// Opens the gate for good.
    pub fn open(&self) {
        self.lock().is_open = true;
        self.changed.notify_all();
    }

    /// How many have reached the gate so far.
    #[must_use]
    pub fn nr_arrived(&self) -> usize {
        self.lock().nr_arrived
    }
}

/// Opens a gate when it goes out of scope, so that a failed assertion does not leave threads behind it.
#[derive(Debug)]
#[must_use = "the gate is opened when this is dropped"]
pub struct OpenAtEnd<'g>(pub &'g Gate);

impl Drop for OpenAtEnd<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn a_gate_holds_whoever_comes_until_it_is_opened() {
        let gate = Gate::new();
        let passed = Mutex::new(0);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    gate.pass();
                    *passed.lock().unwrap() += 1;
                });
            }
            gate.wait_for(3);
            assert_eq!(*passed.lock().unwrap(), 0);
            drop(OpenAtEnd(&gate));
        });
        gate.pass();
        assert_eq!((gate.nr_arrived(), *passed.lock().unwrap()), (4, 3));
    }

    #[test]
    fn a_factor_is_a_positive_number() {
        assert_eq!(parse("2.5"), Some(2.5));
        for text in ["", "0", "-1", "NaN", "inf", "1e9", "two"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_bounded_returns_and_panics_as_if_it_were_not() {
        assert_eq!(bounded("a sum", || 1 + 1), 2);
        let panic = catch_unwind(|| bounded("a panic", || panic!("so it is"))).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"so it is"));
    }
}
