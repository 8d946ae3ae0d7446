//! A backend whose calls fail, fall short or wait at will.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use pagewell_sync::bytes::RacyBytes;

use crate::{Backend, FileId};

/// What becomes of one read.
#[derive(Debug)]
#[non_exhaustive]
pub enum Fault {
    /// The read is done as asked.
    None,
    /// The read fails with this error, after it has left rubbish in the buffers.
    Fail(io::Error),
    /// The file seems to end this many bytes after the start of the read.
    EndAfter(usize),
}

type Script = dyn Fn(u64, usize) -> Fault + Send + Sync;

/// Another backend, with a script that decides what becomes of each read.
///
/// The script is called with the position and the length of the read, before it is done; it may wait
/// for something, which is how tests hold a read at a chosen point.
pub struct FaultBackend<B> {
    inner: B,
    script: Box<Script>,
    nr_reads: AtomicU64,
}

impl<B: Backend> FaultBackend<B> {
    /// `inner`, with `script` before every read.
    pub fn new(inner: B, script: impl Fn(u64, usize) -> Fault + Send + Sync + 'static) -> Self {
        Self {
            inner,
            script: Box::new(script),
            nr_reads: AtomicU64::new(0),
        }
    }

    /// The backend behind the faults.
    pub fn inner(&self) -> &B {
        &self.inner
    }

    /// How many reads were asked for so far.
    pub fn nr_reads(&self) -> u64 {
        // ORDERING: Relaxed; a statistic.
        self.nr_reads.load(Ordering::Relaxed)
    }
}

impl<B: Backend> Backend for FaultBackend<B> {
    fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize> {
        let len = bufs.iter().map(|buf| buf.len()).sum();
        // ORDERING: Relaxed; a statistic.
        self.nr_reads.fetch_add(1, Ordering::Relaxed);
        match (self.script)(pos, len) {
            Fault::None => self.inner.read_at(bufs, pos),
            Fault::Fail(error) => {
                for buf in bufs {
                    buf.copy_from(0, &vec![0xDB; buf.len()]);
                }
                Err(error)
            }
            Fault::EndAfter(end) => Ok(self.inner.read_at(bufs, pos)?.min(end)),
        }
    }

    fn size(&self) -> io::Result<u64> {
        self.inner.size()
    }

    fn id(&self) -> FileId {
        self.inner.id()
    }
}

impl<B: fmt::Debug> fmt::Debug for FaultBackend<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultBackend")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}
