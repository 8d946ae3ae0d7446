//! Substitutes in models for threads, time and condition variables of the system.
//!
//! In a model, time stands still: all calls of `Instant::now` return the same instant, no timeout
//! expires, and a wait with a timeout ends only by a notification. loom reports a wait without one
//! as a deadlock. A model starts the threads that it explores; [`spawn_named`] starts none.

use std::io;
use std::ops::{Add, Sub};
use std::sync::{LockResult, PoisonError};
use std::time::Duration;

use loom::sync::MutexGuard;

pub use std::sync::{Mutex as RecordMutex, MutexGuard as RecordGuard};

/// Locks a mutex of records, ignoring poison.
pub fn lock_record<T>(mutex: &RecordMutex<T>) -> RecordGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// loom's condition variable, with all waits of `std`'s.
#[derive(Debug, Default)]
pub struct Condvar(loom::sync::Condvar);

/// Result of a [`Condvar`] wait with a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(());

/// Result of a wait with a timeout.
type Waited<'a, T> = LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)>;

#[allow(missing_docs)] // As those of `std`.
impl WaitTimeoutResult {
    #[must_use]
    pub const fn timed_out(&self) -> bool {
        false
    }
}

#[allow(missing_docs)] // As those of `std`.
impl Condvar {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    #[track_caller]
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    #[track_caller]
    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    #[track_caller]
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.0.wait(guard)
    }

    #[track_caller]
    pub fn wait_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        while condition(&mut guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    #[track_caller]
    pub fn wait_timeout<'a, T>(&self, guard: MutexGuard<'a, T>, _: Duration) -> Waited<'a, T> {
        without_limit(self.wait(guard))
    }

    #[track_caller]
    pub fn wait_timeout_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        _: Duration,
        condition: impl FnMut(&mut T) -> bool,
    ) -> Waited<'a, T> {
        without_limit(self.wait_while(guard, condition))
    }
}

fn without_limit<T>(waited: LockResult<MutexGuard<'_, T>>) -> Waited<'_, T> {
    let result = WaitTimeoutResult(());
    match waited {
        Ok(guard) => Ok((guard, result)),
        Err(poisoned) => Err(PoisonError::new((poisoned.into_inner(), result))),
    }
}

/// The only instant of a model, plus a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

#[allow(missing_docs)] // As those of `std`.
impl Instant {
    #[must_use]
    pub const fn now() -> Self {
        Self(Duration::ZERO)
    }

    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Self::now().saturating_duration_since(*self)
    }

    #[must_use]
    pub fn saturating_duration_since(&self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0 + time)
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

/// Lets another thread run.
pub fn sleep(_: Duration) {
    loom::thread::yield_now();
}

/// Returns the error `Unsupported`, since a model has only the threads that it starts itself.
pub fn spawn_named(_: &str, _: impl FnOnce() + Send + 'static) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
