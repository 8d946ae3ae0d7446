//! A backend whose calls fail, fall short or block on request.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use pagewell_io::testing::total_len;
use pagewell_io::{Backend, FileId, Transfers};
use pagewell_sync::bytes::{RacyBytes, RacySource};

/// Call of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// [`Backend::read_at`] of `len` bytes from `pos` on.
    Read {
        /// Position of the first byte.
        pos: u64,
        /// Number of bytes.
        len: usize,
    },
    /// [`Backend::write_at`] of `len` bytes from `pos` on.
    Write {
        /// Position of the first byte.
        pos: u64,
        /// Number of bytes.
        len: usize,
    },
    /// [`Backend::size`].
    Size,
    /// [`Backend::set_size`].
    SetSize {
        /// The size to set, in bytes.
        size: u64,
    },
    /// [`Backend::sync_data`].
    SyncData,
    /// [`Backend::sync_all`].
    SyncAll,
}

/// Outcome of one call. A delay is not a fault: the script may block before it returns.
#[derive(Debug)]
#[non_exhaustive]
pub enum Fault {
    /// The call is passed to the inner backend unchanged.
    None,
    /// The call fails with this error and is not passed to the inner backend, so nothing is
    /// written, set or synced. A read leaves arbitrary bytes in the buffers.
    Fail(io::Error),
    /// The call is performed, and fails with its own error or else with this one. Not for reads.
    DoneThenFail(io::Error),
    /// The file seems to end this number of bytes after the start of the read. Only for reads.
    EndAfter(usize),
    /// At most the first `written` bytes of a write are written, and the write fails.
    ShortThenFail {
        /// Number of bytes written.
        written: usize,
        /// Error of the write.
        error: io::Error,
    },
}

type Script = dyn Fn(&Operation) -> Fault + Send + Sync;

#[derive(Debug, Default)]
struct Counts {
    reads: AtomicU64,
    writes: AtomicU64,
    sizes: AtomicU64,
    set_sizes: AtomicU64,
    sync_datas: AtomicU64,
    sync_alls: AtomicU64,
}

impl Counts {
    fn of(&self, operation: &Operation) -> &AtomicU64 {
        match operation {
            Operation::Read { .. } => &self.reads,
            Operation::Write { .. } => &self.writes,
            Operation::Size => &self.sizes,
            Operation::SetSize { .. } => &self.set_sizes,
            Operation::SyncData => &self.sync_datas,
            Operation::SyncAll => &self.sync_alls,
        }
    }
}

/// A backend with a script that determines the outcome of each [`Operation`]. The script runs
/// before the call, and may block to hold a call at a chosen point.
pub struct FaultBackend<B> {
    inner: B,
    script: Box<Script>,
    counts: Counts,
}

impl<B: Backend> FaultBackend<B> {
    /// Wraps `inner`. `script` receives the position and length of every read.
    pub fn new(inner: B, script: impl Fn(u64, usize) -> Fault + Send + Sync + 'static) -> Self {
        Self::with_script(inner, move |operation| match *operation {
            Operation::Read { pos, len } => script(pos, len),
            _ => Fault::None,
        })
    }

    /// Wraps `inner`. `script` receives every [`Operation`]. A call panics if its fault is unfit.
    pub fn with_script(
        inner: B,
        script: impl Fn(&Operation) -> Fault + Send + Sync + 'static,
    ) -> Self {
        Self {
            inner,
            script: Box::new(script),
            counts: Counts::default(),
        }
    }

    /// Returns the inner backend.
    pub fn inner(&self) -> &B {
        &self.inner
    }

    /// Returns the number of reads so far.
    pub fn nr_reads(&self) -> u64 {
        // ORDERING: Relaxed; the count is a statistic and orders nothing.
        self.counts.reads.load(Ordering::Relaxed)
    }

    /// Returns the number of writes so far.
    pub fn nr_writes(&self) -> u64 {
        // ORDERING: Relaxed; the count is a statistic and orders nothing.
        self.counts.writes.load(Ordering::Relaxed)
    }

    /// Returns the number of calls of [`size`](Backend::size) so far.
    pub fn nr_sizes(&self) -> u64 {
        // ORDERING: Relaxed; the count is a statistic and orders nothing.
        self.counts.sizes.load(Ordering::Relaxed)
    }

    /// Returns the number of calls of [`set_size`](Backend::set_size) so far.
    pub fn nr_set_sizes(&self) -> u64 {
        // ORDERING: Relaxed; the count is a statistic and orders nothing.
        self.counts.set_sizes.load(Ordering::Relaxed)
    }

    /// Returns the number of calls of [`sync_data`](Backend::sync_data) so far.
    pub fn nr_sync_datas(&self) -> u64 {
        // ORDERING: Relaxed; the count is a statistic and orders nothing.
        self.counts.sync_datas.load(Ordering::Relaxed)
    }

    /// Returns the number of calls of [`sync_all`](Backend::sync_all) so far.
    pub fn nr_sync_alls(&self) -> u64 {
        // ORDERING: Relaxed; the count is a statistic and orders nothing.
        self.counts.sync_alls.load(Ordering::Relaxed)
    }

    fn fault(&self, operation: &Operation) -> Fault {
        // ORDERING: Relaxed; the count is a statistic and orders nothing.
        self.counts.of(operation).fetch_add(1, Ordering::Relaxed);
        (self.script)(operation)
    }

    fn simple<T>(
        &self,
        operation: &Operation,
        call: impl FnOnce(&B) -> io::Result<T>,
    ) -> io::Result<T> {
        match self.fault(operation) {
            Fault::None => call(&self.inner),
            Fault::Fail(error) => Err(error),
            Fault::DoneThenFail(error) => {
                call(&self.inner)?;
                Err(error)
            }
            fault => unfit(operation, &fault),
        }
    }
}

fn unfit(operation: &Operation, fault: &Fault) -> ! {
    panic!("the script returned {fault:?} for {operation:?}, to which it does not apply")
}

fn first_bytes<'a>(bufs: &[RacySource<'a>], len: usize) -> Vec<RacySource<'a>> {
    let mut left = len;
    bufs.iter()
        .map(|buf| {
            let now = buf.len().min(left);
            left -= now;
            buf.slice(0, now)
        })
        .collect()
}

impl<B: Backend> Backend for FaultBackend<B> {
    fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize> {
        let len = total_len(bufs);
        let operation = Operation::Read { pos, len };
        match self.fault(&operation) {
            Fault::None => self.inner.read_at(bufs, pos),
            Fault::Fail(error) => {
                for buf in bufs {
                    buf.copy_from(0, &vec![0xDB; buf.len()]);
                }
                Err(error)
            }
            Fault::EndAfter(end) => Ok(self.inner.read_at(bufs, pos)?.min(end)),
            fault => unfit(&operation, &fault),
        }
    }

    fn size(&self) -> io::Result<u64> {
        self.simple(&Operation::Size, B::size)
    }

    fn id(&self) -> FileId {
        self.inner.id()
    }

    fn is_writable(&self) -> bool {
        self.inner.is_writable()
    }

    fn write_at(&self, bufs: &[RacySource<'_>], pos: u64) -> io::Result<()> {
        let len = total_len(bufs);
        let operation = Operation::Write { pos, len };
        match self.fault(&operation) {
            Fault::None => self.inner.write_at(bufs, pos),
            Fault::Fail(error) => Err(error),
            Fault::DoneThenFail(error) => {
                self.inner.write_at(bufs, pos)?;
                Err(error)
            }
            Fault::ShortThenFail { written, error } => {
                self.inner.write_at(&first_bytes(bufs, written), pos)?;
                Err(error)
            }
            fault @ Fault::EndAfter(_) => unfit(&operation, &fault),
        }
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.simple(&Operation::SetSize { size }, |inner| inner.set_size(size))
    }

    fn check_size(&self, size: u64) -> io::Result<()> {
        self.inner.check_size(size)
    }

    fn begin_sync(&self, range: Range<u64>) -> io::Result<()> {
        self.inner.begin_sync(range)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.simple(&Operation::SyncData, B::sync_data)
    }

    fn sync_all(&self) -> io::Result<()> {
        self.simple(&Operation::SyncAll, B::sync_all)
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

impl<B: fmt::Debug> fmt::Debug for FaultBackend<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultBackend")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}
