//! A transfer, a sync or a change of size that completes later, exactly once.
//!
//! A request owns all that it needs: the memory's owner is in its [`Completion`]. So it may be completed by any thread, and nobody has to wait
//! for it. There is no way to give a request up once an engine has it: whoever loses interest lets the completion run, which then frees what it owns.
//!
//! # Why the memory is there as long as the system writes to it
//!
//! - R1: who makes a request promises that its memory is valid until [`Completion::complete`] is called, or for good if it never is
//!   (the duties of [`Request::read`]).
//! - R2: only [`Request::complete`] and the drop of a request call it, and both take the request.
//! - R3: who has given the memory to the system keeps the request until the system says that it is done with it: the ring's slab for io_uring, the
//!   stack for a blocking call. If such an owner is leaked (`mem::forget`), so is the request: the completion is never called, and by R1 the memory stays.
//! - R4: safe code gets the memory as [`RacyBytes`] that borrow from the request ([`Request::buffers`]), so it has lost it when it completes it.

#![allow(unsafe_code)] // The promise that memory is valid is made and used here.

use std::error::Error;
use std::fmt;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pagewell_sync::bytes::{RacyBytes, RacySource};

use super::group::{Group, Panic};
use super::spans::{Span, Spans};

/// What becomes of a request that is done, and the owner of what it needed.
pub trait Completion: Send + 'static {
    /// The request is done, with this result: how many bytes a read has got (fewer than asked for means that the file ends there), how many bytes were
    /// written (all of them), 0 for everything else.
    ///
    /// It is called exactly once, by any thread, with no lock of the engine held. It may give other requests to the engine. It should not wait for any: while
    /// it waits it occupies one of the threads that make the calls of its storage. A panic is told to who waits for the request ([`Lane::wait`](crate::engine::Lane::wait)), and goes no further if nobody does.
    fn complete(self: Box<Self>, result: io::Result<usize>);

    /// Whether [`complete`](Self::complete) runs no code of a program, waits for nothing, and keeps its backend alive, so that the last reference
    /// to the backend is not dropped there. Only then may it run on a thread that the completions of other requests depend on.
    fn is_prompt(&self) -> bool {
        false
    }
}

impl<F: FnOnce(io::Result<usize>) + Send + 'static> Completion for F {
    fn complete(self: Box<Self>, result: io::Result<usize>) {
        (*self)(result);
    }
}

/// What a storage is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// As [`Backend::read_at`](crate::Backend::read_at).
    Read,
    /// As [`Backend::write_at`](crate::Backend::write_at).
    Write,
    /// As [`Backend::sync_data`](crate::Backend::sync_data).
    SyncData,
    /// As [`Backend::sync_all`](crate::Backend::sync_all).
    SyncAll,
    /// As [`Backend::set_size`](crate::Backend::set_size), to that many bytes.
    SetSize(u64),
}

/// One thing that a storage is to do, with all that it needs.
///
/// A request that is dropped completes with the error [`GivenUp`].
#[must_use = "a request that is dropped fails"]
pub struct Request {
    kind: Kind,
    /// Where the first byte that is left goes to, or comes from.
    pos: u64,
    spans: Spans,
    /// How many bytes were transferred.
    nr_done: usize,
    /// None when it was called.
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

/// A request was dropped, and not done: by a storage of the program, or because its engine has no thread any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GivenUp;

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request was given up before it was done")
    }
}

impl Error for GivenUp {}

impl Request {
    /// Reads the file from byte `pos` on into `spans`, one after the other.
    ///
    /// # Safety
    ///
    /// - (a) From now until `completion` is called, the duties of [`RacyBytes::new`] hold for every span. If `completion` is never called, they hold for good.
    /// - (b) Until then nobody relies on what the memory has: the system writes to it at any time.
    pub unsafe fn read(pos: u64, spans: impl Into<Spans>, completion: Box<dyn Completion>) -> Self {
        Self::new(Kind::Read, pos, spans.into(), completion)
    }

    /// Writes all bytes of `spans`, one after the other, to the file from byte `pos` on.
    ///
    /// # Safety
    ///
    /// (a) As for [`read`](Self::read), but that the memory need not be writable. (Who changes it meanwhile, by racy bytes, gets any mixture written.)
    pub unsafe fn write(
        pos: u64,
        spans: impl Into<Spans>,
        completion: Box<dyn Completion>,
    ) -> Self {
        Self::new(Kind::Write, pos, spans.into(), completion)
    }

    /// Makes durable what was written, and the size needed to read it. What is under way at the same time may be durable then, or not.
    pub fn sync_data(completion: Box<dyn Completion>) -> Self {
        Self::new(Kind::SyncData, 0, Spans::default(), completion)
    }

    /// As [`sync_data`](Self::sync_data), and the metadata too.
    pub fn sync_all(completion: Box<dyn Completion>) -> Self {
        Self::new(Kind::SyncAll, 0, Spans::default(), completion)
    }

    /// Cuts the file, or makes it grow, to `size` bytes.
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

    /// What is to be done.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The place in the file of the first byte that is left to be transferred.
    #[must_use]
    pub fn pos(&self) -> u64 {
        self.pos
    }

    /// How many bytes are left to be transferred.
    #[must_use]
    pub fn nr_left(&self) -> usize {
        self.spans.nr_bytes()
    }

    /// How many bytes were transferred.
    #[must_use]
    pub fn nr_done(&self) -> usize {
        self.nr_done
    }

    /// The memory that is left to be read into. Empty if this is no read.
    #[must_use]
    pub fn buffers(&self) -> Vec<RacyBytes<'_>> {
        if self.kind != Kind::Read {
            return Vec::new();
        }
        // SAFETY: (a) of `read`; the completion was not called, since that takes the request (R2), from which the answer borrows.
        unsafe { self.spans.racy() }
    }

    /// The memory that is left to be written. Empty if this is no write.
    #[must_use]
    pub fn sources(&self) -> Vec<RacySource<'_>> {
        if self.kind != Kind::Write {
            return Vec::new();
        }
        // SAFETY: (a) of `write`; as in `buffers`.
        unsafe { self.spans.sources() }
    }

    /// The first `nr` bytes of what is left were transferred.
    ///
    /// # Panics
    ///
    /// When fewer are left.
    pub fn advance(&mut self, nr: usize) {
        self.spans.advance(nr);
        self.nr_done += nr;
        self.pos = self.pos.saturating_add(nr as u64);
    }

    /// Completes the request with this result, as [`Completion::complete`] describes it. A write of fewer bytes than were asked for
    /// fails with [`WriteZero`](io::ErrorKind::WriteZero).
    pub fn complete(mut self, result: io::Result<usize>) {
        self.finish(result);
    }

    /// [`Completion::is_prompt`].
    pub(crate) fn is_prompt(&self) -> bool {
        let completion = self.completion.as_ref();
        completion.is_some_and(|completion| completion.is_prompt())
    }

    /// The memory that is left, for the system.
    pub(crate) fn spans(&self) -> &[Span] {
        self.spans.left()
    }

    /// Has `group` count it when it is completed.
    pub(crate) fn join(&mut self, group: &Arc<Group>) {
        self.group = Some(Arc::clone(group));
    }

    /// As [`complete`](Self::complete), and the group is told by the caller, who gets the panic of the completion.
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
            // It was shown by the panic hook. Its drop could panic again, so it is leaked.
            None => mem::forget(panic),
        }
    }

    fn call(&mut self, result: io::Result<usize>) -> Option<Panic> {
        let completion = self.completion.take()?;
        let len = self.nr_done + self.spans.nr_bytes();
        // A backend that completes a write early has not written all of it, whatever it returns.
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
