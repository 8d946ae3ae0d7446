//! Locks and condition variables that pass the baton while a thread waits, and record acquisitions.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
use std::time::Duration;

use crate::notes::{Kind, note_and_point};
use crate::schedule::{Instant, ME, NOBODY, point, wait_for, wake};

/// `std`'s mutex, whose waiting threads pass the baton.
#[derive(Default)]
pub struct Mutex<T: ?Sized>(std::sync::Mutex<T>);

/// Guard of a [`Mutex`].
#[must_use]
pub struct MutexGuard<'a, T: ?Sized> {
    lock: &'a Mutex<T>,
    /// `None` once the lock has been released, or passed to `std`'s condition variable.
    inner: Option<std::sync::MutexGuard<'a, T>>,
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[allow(missing_docs)] // As those of `std`.
impl<T> Mutex<T> {
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    pub fn into_inner(self) -> LockResult<T> {
        self.0.into_inner()
    }
}

#[allow(missing_docs)] // As those of `std`.
impl<T: ?Sized> Mutex<T> {
    fn address(&self) -> usize {
        std::ptr::from_ref(&self.0).cast::<u8>().addr()
    }

    fn guard<'a>(&'a self, inner: std::sync::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        MutexGuard {
            lock: self,
            inner: Some(inner),
        }
    }

    fn result<'a>(
        &'a self,
        result: LockResult<std::sync::MutexGuard<'a, T>>,
    ) -> LockResult<MutexGuard<'a, T>> {
        match result {
            Ok(inner) => Ok(self.guard(inner)),
            Err(poisoned) => Err(PoisonError::new(self.guard(poisoned.into_inner()))),
        }
    }

    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        note_and_point(Kind::Lock);
        let me = ME.get();
        if me == NOBODY {
            return self.result(self.0.lock());
        }
        loop {
            match self.0.try_lock() {
                Ok(inner) => return Ok(self.guard(inner)),
                Err(TryLockError::Poisoned(poisoned)) => return self.result(Err(poisoned)),
                Err(TryLockError::WouldBlock) => _ = wait_for(me, self.address(), None),
            }
        }
    }

    #[track_caller]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        note_and_point(Kind::Lock);
        match self.0.try_lock() {
            Ok(inner) => Ok(self.guard(inner)),
            Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
            Err(TryLockError::Poisoned(poisoned)) => Err(TryLockError::Poisoned(PoisonError::new(
                self.guard(poisoned.into_inner()),
            ))),
        }
    }

    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().expect("the guard holds its lock")
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("the guard holds its lock")
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if self.inner.take().is_some() {
            wake(self.lock.address(), true);
        }
    }
}

/// `std`'s condition variable, whose waiting threads pass the baton.
#[derive(Debug, Default)]
pub struct Condvar(std::sync::Condvar);

/// Result of a [`Condvar`] wait with a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

#[allow(missing_docs)] // As those of `std`.
impl WaitTimeoutResult {
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

#[allow(missing_docs)] // As those of `std`.
impl Condvar {
    #[must_use]
    pub const fn new() -> Self {
        Self(std::sync::Condvar::new())
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    pub fn notify_one(&self) {
        point();
        self.0.notify_one();
        wake(self.address(), false);
    }

    pub fn notify_all(&self) {
        point();
        self.0.notify_all();
        wake(self.address(), true);
    }

    pub fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let lock = guard.lock;
        let me = ME.get();
        if me == NOBODY {
            let inner = guard.inner.take().expect("the guard holds its lock");
            return lock.result(self.0.wait(inner));
        }
        // This thread holds the baton, so no other thread runs between these two calls.
        drop(guard);
        wait_for(me, self.address(), None);
        lock.lock()
    }

    pub fn wait_timeout<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        most: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let lock = guard.lock;
        let me = ME.get();
        if me == NOBODY {
            let inner = guard.inner.take().expect("the guard holds its lock");
            return match self.0.wait_timeout(inner, most) {
                Ok((inner, late)) => Ok((lock.guard(inner), WaitTimeoutResult(late.timed_out()))),
                Err(poisoned) => {
                    let (inner, late) = poisoned.into_inner();
                    let late = WaitTimeoutResult(late.timed_out());
                    Err(PoisonError::new((lock.guard(inner), late)))
                }
            };
        }
        drop(guard);
        let late = WaitTimeoutResult(!wait_for(me, self.address(), Some(most)));
        match lock.lock() {
            Ok(guard) => Ok((guard, late)),
            Err(poisoned) => Err(PoisonError::new((poisoned.into_inner(), late))),
        }
    }

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

    pub fn wait_timeout_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        most: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let began = Instant::now();
        loop {
            if !condition(&mut guard) {
                return Ok((guard, WaitTimeoutResult(false)));
            }
            let rest = most.saturating_sub(began.elapsed());
            if rest == Duration::ZERO {
                return Ok((guard, WaitTimeoutResult(true)));
            }
            (guard, _) = self.wait_timeout(guard, rest)?;
        }
    }
}

/// `std`'s reader-writer lock, whose waiting threads pass the baton.
#[derive(Debug, Default)]
pub struct RwLock<T>(std::sync::RwLock<T>);

/// Guard of a lock for reading.
#[derive(Debug)]
#[must_use]
pub struct RwLockReadGuard<'a, T> {
    address: usize,
    inner: Option<std::sync::RwLockReadGuard<'a, T>>,
}

/// Guard of a lock for writing.
#[derive(Debug)]
#[must_use]
pub struct RwLockWriteGuard<'a, T> {
    address: usize,
    inner: Option<std::sync::RwLockWriteGuard<'a, T>>,
}

#[allow(missing_docs)] // As those of `std`.
impl<T> RwLock<T> {
    pub const fn new(value: T) -> Self {
        Self(std::sync::RwLock::new(value))
    }

    /// Locks for reading. Ignores poison, because no caller uses it.
    #[track_caller]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        note_and_point(Kind::Lock);
        let (me, address) = (ME.get(), std::ptr::from_ref(self).addr());
        let guard = |inner| RwLockReadGuard {
            address,
            inner: Some(inner),
        };
        if me == NOBODY {
            return Ok(guard(self.0.read().unwrap_or_else(PoisonError::into_inner)));
        }
        loop {
            match self.0.try_read() {
                Ok(inner) => return Ok(guard(inner)),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(guard(poisoned.into_inner())),
                Err(TryLockError::WouldBlock) => _ = wait_for(me, address, None),
            }
        }
    }

    /// Locks for writing, and ignores poison like [`read`](Self::read).
    #[track_caller]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        note_and_point(Kind::Lock);
        let (me, address) = (ME.get(), std::ptr::from_ref(self).addr());
        let guard = |inner| RwLockWriteGuard {
            address,
            inner: Some(inner),
        };
        if me == NOBODY {
            return Ok(guard(
                self.0.write().unwrap_or_else(PoisonError::into_inner),
            ));
        }
        loop {
            match self.0.try_write() {
                Ok(inner) => return Ok(guard(inner)),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(guard(poisoned.into_inner())),
                Err(TryLockError::WouldBlock) => _ = wait_for(me, address, None),
            }
        }
    }

    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }
}

impl<T> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().expect("the guard holds its lock")
    }
}

impl<T> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().expect("the guard holds its lock")
    }
}

impl<T> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("the guard holds its lock")
    }
}

impl<T> Drop for RwLockReadGuard<'_, T> {
    fn drop(&mut self) {
        drop(self.inner.take());
        wake(self.address, true);
    }
}

impl<T> Drop for RwLockWriteGuard<'_, T> {
    fn drop(&mut self) {
        drop(self.inner.take());
        wake(self.address, true);
    }
}
