//! A transfer, a sync or a change of size that completes later, exactly once.
//!
//! A request owns all that it needs: its [`Completion`] owns the memory's owner. Any thread may
//! therefore complete it, and no thread has to wait for it. A request cannot be cancelled once an
//! engine has it: an unneeded request still runs its completion, which frees what it owns.
//!
//! # Why the memory stays valid while the system writes to it
//!
//! - R1: The creator of a request keeps its memory valid until [`Completion::complete`] is called,
//!   or for good if it never is (as [`Request::read`] requires).
//! - R2: Only [`Request::complete`] and the drop of a request call it. Both consume the request.
//! - R3: Code that has passed the memory to the system keeps the request until the system no longer
//!   uses the memory: in the ring's slab for io_uring, on the stack for a blocking call. If such an
//!   owner is leaked (`mem::forget`), the request is too: it never completes, and by R1 the memory
//!   stays valid.
//! - R4: Safe code accesses the memory as [`RacyBytes`] that borrow from the request
//!   ([`Request::buffers`]), and so not after it has completed the request.

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

/// Completion callback of a request, and the owner of what the request needs.
pub trait Completion: Send + 'static {
    /// Runs when the request is done. `result` is the number of bytes read (fewer than requested
    /// means that the file ends there), the number of bytes written (all of them), or 0 otherwise.
    ///
    /// Called exactly once, on any thread, with no lock of the engine held. It may submit other
    /// requests to the engine. It should not wait for any: while it waits, it occupies one of the
    /// threads that perform the calls of its backend. A panic is passed to the thread that waits
    /// for the request ([`Lane::wait`](crate::engine::Lane::wait)), or else ends here.
    fn complete(self: Box<Self>, result: io::Result<usize>);

    /// Returns `true` if [`complete`](Self::complete) runs no code of the program, never blocks,
    /// and keeps its backend alive, so that it does not drop the last reference to the backend.
    /// Only then may it run on a thread that the completions of other requests depend on.
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

/// One operation on a backend, with all that it needs.
///
/// A request that is dropped completes with the error [`GivenUp`].
#[must_use = "a request that is dropped fails"]
pub struct Request {
    kind: Kind,
    /// File position of the first byte left.
    pos: u64,
    spans: Spans,
    nr_done: usize,
    /// `None` once it was called.
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

/// Error of a request that was dropped before it was performed: by a backend of the program, or
/// because its engine has no thread left.
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
    /// - (a) From now until `completion` is called, the obligations of [`RacyBytes::new`] hold for
    ///   every span. If `completion` is never called, they hold for good.
    /// - (b) Until then no code relies on the memory's contents: the system may write at any time.
    pub unsafe fn read(pos: u64, spans: impl Into<Spans>, completion: Box<dyn Completion>) -> Self {
        Self::new(Kind::Read, pos, spans.into(), completion)
    }

    /// Creates a write of all bytes of `spans`, in order, to the file from byte `pos` on.
    ///
    /// # Safety
    ///
    /// (a) As for [`read`](Self::read), but the memory need not be writable. (If racy bytes change
    /// it concurrently, any mixture is written.)
    pub unsafe fn write(
        pos: u64,
        spans: impl Into<Spans>,
        completion: Box<dyn Completion>,
    ) -> Self {
        Self::new(Kind::Write, pos, spans.into(), completion)
    }

    /// Creates a sync of completed writes, possibly of concurrent ones, and of the size needed to
    /// read them.
    pub fn sync_data(completion: Box<dyn Completion>) -> Self {
        Self::new(Kind::SyncData, 0, Spans::default(), completion)
    }

    /// As [`sync_data`](Self::sync_data), and the metadata too.
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

    /// Kind of the operation.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// File position of the first byte that is left to be transferred.
    #[must_use]
    pub fn pos(&self) -> u64 {
        self.pos
    }

    /// Number of bytes left to be transferred.
    #[must_use]
    pub fn nr_left(&self) -> usize {
        self.spans.nr_bytes()
    }

    /// Number of bytes transferred.
    #[must_use]
    pub fn nr_done(&self) -> usize {
        self.nr_done
    }

    /// Memory that is left to be read into. Empty unless this is a read.
    #[must_use]
    pub fn buffers(&self) -> Vec<RacyBytes<'_>> {
        if self.kind != Kind::Read {
            return Vec::new();
        }
        // SAFETY: (a) of `read`; the completion was not called, since that consumes the request
        // (R2), from which the result borrows.
        unsafe { self.spans.racy() }
    }

    /// Memory that is left to be written. Empty unless this is a write.
    #[must_use]
    pub fn sources(&self) -> Vec<RacySource<'_>> {
        if self.kind != Kind::Write {
            return Vec::new();
        }
        // SAFETY: (a) of `write`; as in `buffers`.
        unsafe { self.spans.sources() }
    }

    /// Records that the first `nr` of the bytes left were transferred.
    ///
    /// # Panics
    ///
    /// If fewer than `nr` bytes are left.
    pub fn advance(&mut self, nr: usize) {
        self.spans.advance(nr);
        self.nr_done += nr;
        self.pos = self.pos.saturating_add(nr as u64);
    }

    /// Completes the request with this result, as [`Completion::complete`] describes it. A write of
    /// fewer bytes than requested fails with [`WriteZero`](io::ErrorKind::WriteZero).
    pub fn complete(mut self, result: io::Result<usize>) {
        self.finish(result);
    }

    pub(crate) fn is_prompt(&self) -> bool {
        let completion = self.completion.as_ref();
        completion.is_some_and(|completion| completion.is_prompt())
    }

    /// Memory that is left, in the form of the system calls.
    pub(crate) fn spans(&self) -> &[Span] {
        self.spans.left()
    }

    /// Makes `group` count the request when it completes.
    pub(crate) fn join(&mut self, group: &Arc<Group>) {
        self.group = Some(Arc::clone(group));
    }

    /// As [`complete`](Self::complete), but returns the panic, and the caller notifies the group.
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
            // The panic hook has reported it. Its drop could panic again, so it is leaked.
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
