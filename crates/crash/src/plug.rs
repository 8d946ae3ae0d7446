//! A backend whose program may die.
//!
//! The cache of a program that was killed, or lost its power, does nothing any more. The cache of a simulated
//! program lies in the memory of the test, and is dropped in good order, which makes everything durable.
//! So it is unplugged before it is dropped: its calls then reach no backend, and are answered as if
//! they had been done.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pagewell::io::{Backend, FileId, RacyBytes, RacySource, Transfers};

/// Keeps the backends of one program plugged in. Clones are the same plug.
#[derive(Clone, Debug, Default)]
pub struct Plug {
    is_pulled: Arc<AtomicBool>,
}

impl Plug {
    /// The program is dead: none of its calls reaches a backend any more.
    pub fn pull(&self) {
        // ORDERING: Relaxed; a thread that pulls it during calls does not care which of them arrive.
        self.is_pulled.store(true, Ordering::Relaxed);
    }

    /// `backend`, for as long as this is plugged in.
    pub fn on<B: Backend>(&self, backend: B) -> Plugged<B> {
        Plugged {
            plug: self.clone(),
            inner: backend,
        }
    }

    fn is_pulled(&self) -> bool {
        // ORDERING: Relaxed; see `pull`.
        self.is_pulled.load(Ordering::Relaxed)
    }
}

/// A backend that is reached for as long as its [`Plug`] is in.
#[derive(Debug)]
pub struct Plugged<B> {
    plug: Plug,
    inner: B,
}

impl<B: Backend> Plugged<B> {
    fn do_unless_pulled(&self, call: impl FnOnce(&B) -> io::Result<()>) -> io::Result<()> {
        match self.plug.is_pulled() {
            true => Ok(()),
            false => call(&self.inner),
        }
    }
}

impl<B: Backend> Backend for Plugged<B> {
    fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize> {
        self.inner.read_at(bufs, pos)
    }

    fn size(&self) -> io::Result<u64> {
        self.inner.size()
    }

    fn id(&self) -> FileId {
        self.inner.id()
    }

    fn is_writable(&self) -> bool {
        self.inner.is_writable()
    }

    fn write_at(&self, bufs: &[RacySource<'_>], pos: u64) -> io::Result<()> {
        self.do_unless_pulled(|inner| inner.write_at(bufs, pos))
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.do_unless_pulled(|inner| inner.set_size(size))
    }

    fn check_size(&self, size: u64) -> io::Result<()> {
        self.inner.check_size(size)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.do_unless_pulled(B::sync_data)
    }

    fn sync_all(&self) -> io::Result<()> {
        self.do_unless_pulled(B::sync_all)
    }

    fn alignment(&self) -> usize {
        self.inner.alignment()
    }

    fn is_as_found(&self) -> bool {
        self.inner.is_as_found()
    }

    fn file_transfers(&self) -> Option<Transfers> {
        self.inner.file_transfers()
    }
}
