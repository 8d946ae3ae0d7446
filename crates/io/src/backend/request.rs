//! A transfer, a sync or a change of size that completes later.
//!
//! Any thread may complete a request, because the request's [`Completion`] keeps the memory valid.
//! A request cannot be cancelled once an engine has it.
//!
//! # Why the memory stays valid while the system writes to it
//!
//! - R1: The creator of a request keeps its memory valid until [`Completion::complete`] is called,
//!   or forever if it is never called (as [`Request::read`] requires).
//! - R2: Only [`Request::complete`], `complete_quietly` and the drop of a request call the
//!   completion. Each of them consumes the request.
//! - R3: Code that has passed the memory to the system keeps the request until the system no longer
//!   uses the memory: in the ring's list of jobs for io_uring, on the stack for a blocking call. A
//!   leaked ring (`mem::forget`) leaks its requests, whose memory stays valid by R1.
//! - R4: Safe code accesses the memory only as [`RacyBytes`] or [`RacySource`]. They borrow from
//!   the request ([`Request::buffers`]), which its completion consumes.

#![allow(unsafe_code)] // The promise that memory is valid is made and used here.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};

use pagewell_sync::bytes::{RacyBytes, RacySource};
use pagewell_sync::{Condvar, Mutex, lock};

use super::spans::{Span, Spans};

/// Completion callback of a request, and the owner of the memory that the request uses.
pub trait Completion: Send + 'static {
    /// Runs when the request is done. A successful `result` is the number of bytes read (fewer than
    /// requested: the file ends there) or written (all of them), or 0 for other kinds.
    ///
    /// Called once, on any thread, with no lock of the engine held. It may submit requests, but
    /// must not wait for any: they may need its thread. The panic hook reports a panic. A thread
    /// that waits for the request may raise it again ([`Lane::wait`](crate::engine::Lane::wait)).
    fn complete(self: Box<Self>, result: io::Result<usize>);

    /// Returns `true` if [`complete`](Self::complete) runs no code of the program, never blocks,
    /// and does not drop the last reference to the request's backend. The io_uring engine's thread,
    /// on which other requests depend, passes any other completion to a worker.
    fn is_prompt(&self) -> bool {
        false
    }
}

impl<F: FnOnce(io::Result<usize>) + Send + 'static> Completion for F {
    fn complete(self: Box<Self>, result: io::Result<usize>) {
        (*self)(result);
    }
}

/// Operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Performs [`Backend::read_at`](crate::Backend::read_at).
    Read,
    /// Performs [`Backend::write_at`](crate::Backend::write_at).
    Write,
    /// Performs [`Backend::sync_data`](crate::Backend::sync_data).
    SyncData,
    /// Performs [`Backend::sync_all`](crate::Backend::sync_all).
    SyncAll,
    /// Performs [`Backend::set_size`](crate::Backend::set_size), to this number of bytes.
    SetSize(u64),
}

/// One operation on a backend, with its position, memory and completion.
///
/// A request that is dropped completes with the error [`GivenUp`].
#[must_use = "a request that is dropped fails"]
pub struct Request {
    kind: Kind,
    /// File position of the first byte that is not transferred yet.
    pos: u64,
    spans: Spans,
    nr_done: usize,
    /// `None` once the completion was called.
    completion: Option<Box<dyn Completion>>,
    group: Option<Arc<Group>>,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("kind", &self.kind)
            .field("pos", &self.pos)
            .field("nr_left", &self.spans.nr_bytes())
            .field("nr_done", &self.nr_done)
            .finish_non_exhaustive()
    }
}

/// Error of a request that was dropped before it was performed, usually by a
/// [`Deferred`](crate::engine::Deferred) backend of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GivenUp;

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request was dropped before it was performed")
    }
}

impl Error for GivenUp {}

impl Request {
    /// Creates a read of the file from byte `pos` on into `spans`, in order.
    ///
    /// # Safety
    ///
    /// - (a) Until `completion` is called, or forever if it never is, the obligations of
    ///   [`RacyBytes::new`] hold for every span.
    /// - (b) Until then, no code relies on the memory's contents: the system may write to it.
    pub unsafe fn read(pos: u64, spans: impl Into<Spans>, completion: Box<dyn Completion>) -> Self {
        Self::new(Kind::Read, pos, spans.into(), completion)
    }

    /// Creates a write of all bytes of `spans`, in order, to the file from byte `pos` on.
    ///
    /// # Safety
    ///
    /// (a) As for [`read`](Self::read), but the memory need not be writable. (Concurrent changes of
    /// the memory make the system write an arbitrary mixture of old and new bytes.)
    pub unsafe fn write(
        pos: u64,
        spans: impl Into<Spans>,
        completion: Box<dyn Completion>,
    ) -> Self {
        Self::new(Kind::Write, pos, spans.into(), completion)
    }

    /// Creates a sync of the writes that have completed, and of the size needed to read them.
    pub fn sync_data(completion: Box<dyn Completion>) -> Self {
        Self::new(Kind::SyncData, 0, Spans::default(), completion)
    }

    /// Creates a sync like [`sync_data`](Self::sync_data) that includes all of the file's metadata.
    pub fn sync_all(completion: Box<dyn Completion>) -> Self {
        Self::new(Kind::SyncAll, 0, Spans::default(), completion)
    }

    /// Creates a request that truncates or extends the file to `size` bytes.
    pub fn set_size(size: u64, completion: Box<dyn Completion>) -> Self {
        let kind = Kind::SetSize(size);
        Self::new(kind, 0, Spans::default(), completion)
    }

    fn new(kind: Kind, pos: u64, spans: Spans, completion: Box<dyn Completion>) -> Self {
        Self {
            kind,
            pos,
            spans,
            nr_done: 0,
            completion: Some(completion),
            group: None,
        }
    }

    /// Returns the kind of the operation.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the file position of the first byte that is not transferred yet.
    #[must_use]
    pub fn pos(&self) -> u64 {
        self.pos
    }

    /// Returns the number of bytes that are not transferred yet.
    #[must_use]
    pub fn nr_left(&self) -> usize {
        self.spans.nr_bytes()
    }

    /// Returns the number of bytes that were transferred so far.
    #[must_use]
    pub fn nr_done(&self) -> usize {
        self.nr_done
    }

    /// Returns the part of a read's memory that is not filled yet. Empty for other kinds.
    #[must_use]
    pub fn buffers(&self) -> Vec<RacyBytes<'_>> {
        if self.kind != Kind::Read {
            return Vec::new();
        }
        // SAFETY: (a) of `read`: completing consumes the request (R2), which the result borrows.
        unsafe { self.spans.bytes() }
    }

    /// Returns the part of a write's memory that is not written yet. Empty for other kinds.
    #[must_use]
    pub fn sources(&self) -> Vec<RacySource<'_>> {
        if self.kind != Kind::Write {
            return Vec::new();
        }
        // SAFETY: (a) of `write` holds, for the reason given in `buffers`.
        unsafe { self.spans.bytes() }
    }

    /// Records that the next `nr` bytes were transferred. Panics if fewer are left.
    pub fn advance(&mut self, nr: usize) {
        self.spans.advance(nr);
        self.nr_done += nr;
        self.pos = self.pos.saturating_add(nr as u64);
    }

    /// Completes the request with this result, whose meaning [`Completion::complete`] states. A
    /// write of fewer bytes than requested fails with [`WriteZero`](io::ErrorKind::WriteZero).
    pub fn complete(mut self, result: io::Result<usize>) {
        self.finish(result);
    }

    pub(crate) fn is_prompt(&self) -> bool {
        let completion = self.completion.as_ref();
        completion.is_some_and(|completion| completion.is_prompt())
    }

    pub(crate) fn spans(&self) -> &[Span] {
        self.spans.left()
    }

    pub(crate) fn join(&mut self, group: &Arc<Group>) {
        self.group = Some(Arc::clone(group));
    }

    /// Like [`complete`](Self::complete), but returns a panic and does not notify the group.
    pub(crate) fn complete_quietly(mut self, result: io::Result<usize>) -> Option<Panic> {
        self.call(result)
    }

    fn finish(&mut self, result: io::Result<usize>) {
        if self.completion.is_none() {
            return;
        }
        let panic = self.call(result);
        match self.group.take() {
            Some(group) => group.one_is_done(panic),
            // The panic hook has reported the panic. The payload's drop could panic again.
            None => mem::forget(panic),
        }
    }

    fn call(&mut self, result: io::Result<usize>) -> Option<Panic> {
        let completion = self.completion.take()?;
        let len = self.nr_done + self.spans.nr_bytes();
        let result = match (self.kind, result) {
            (Kind::Write, Ok(nr)) if nr < len => Err(io::ErrorKind::WriteZero.into()),
            (_, result) => result,
        };
        catch_unwind(AssertUnwindSafe(|| completion.complete(result))).err()
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if self.completion.is_some() {
            self.finish(Err(io::Error::other(GivenUp)));
        }
    }
}

pub(crate) type Panic = Box<dyn Any + Send>;

/// Count of completed requests, and the first panic of a completion.
#[derive(Debug, Default)]
pub struct Group {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    nr_done: usize,
    panic: Option<Panic>,
}

impl Group {
    pub(crate) fn one_is_done(&self, panic: Option<Panic>) {
        let mut state = lock(&self.state);
        state.nr_done += 1;
        if state.panic.is_none() {
            state.panic = panic;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Returns the number of completed requests.
    pub fn nr_done(&self) -> usize {
        lock(&self.state).nr_done
    }

    pub(crate) fn wait_for(&self, nr: usize) -> usize {
        self.changed
            .wait_while(lock(&self.state), |state| state.nr_done < nr)
            .unwrap_or_else(PoisonError::into_inner)
            .nr_done
    }

    /// Removes the first panic of a completion.
    pub fn take_panic(&self) -> Option<Panic> {
        lock(&self.state).panic.take()
    }
}
