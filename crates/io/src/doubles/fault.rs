//! A backend whose calls fail, fall short or wait at will.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use pagewell_sync::bytes::{RacyBytes, RacySource};

#[cfg(not(loom))]
use crate::backend::Transfers;
use crate::backend::{Backend, FileId, total_len};

/// What a backend is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// [`Backend::read_at`] of `len` bytes from `pos` on.
    Read {
        /// The first byte.
        pos: u64,
        /// How many bytes.
        len: usize,
    },
    /// [`Backend::write_at`] of `len` bytes from `pos` on.
    Write {
        /// The first byte.
        pos: u64,
        /// How many bytes.
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

/// What becomes of one call.
///
/// A call that is late needs no fault: the script may wait for as long as it likes before it answers.
#[derive(Debug)]
#[non_exhaustive]
pub enum Fault {
    /// The call is done as asked.
    None,
    /// The call fails with this error, and the backend behind is not asked: nothing is written, set
    /// or synced. A read leaves rubbish in the buffers.
    Fail(io::Error),
    /// The call is done as asked, and then fails with this error all the same. Not for reads, of which
    /// it would be the same as [`Fail`](Self::Fail).
    DoneThenFail(io::Error),
    /// The file seems to end this many bytes after the start of the read. Only for reads.
    EndAfter(usize),
    /// The first `written` bytes are written (all of them, if there are no more), and then the write
    /// fails with this error. Only for writes.
    ShortThenFail {
        /// How many bytes are written.
        written: usize,
        /// What the write fails with.
        error: io::Error,
    },
}

type Script = dyn Fn(&Operation) -> Fault + Send + Sync;

/// How many calls of each kind there were.
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

/// Another backend, with a script that decides what becomes of each call.
///
/// The script is called before the call is done; it may wait for something, which is how tests hold a
/// call at a chosen point. It is writable if the backend behind is.
pub struct FaultBackend<B> {
    inner: B,
    script: Box<Script>,
    counts: Counts,
}

impl<B: Backend> FaultBackend<B> {
    /// `inner`, with `script` before every read, which is told its position and length; all other
    /// calls are done as asked.
    pub fn new(inner: B, script: impl Fn(u64, usize) -> Fault + Send + Sync + 'static) -> Self {
        Self::with_script(inner, move |operation| match *operation {
            Operation::Read { pos, len } => script(pos, len),
            _ => Fault::None,
        })
    }

    /// `inner`, with `script` before every call.
    ///
    /// # Panics
    ///
    /// A call panics for which the script has a fault that is not for calls of its kind.
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

    /// The backend behind the faults.
    pub fn inner(&self) -> &B {
        &self.inner
    }

    /// How many reads were asked for so far.
    pub fn nr_reads(&self) -> u64 {
        // ORDERING: Relaxed; a statistic.
        self.counts.reads.load(Ordering::Relaxed)
    }

    /// How many writes were asked for so far.
    pub fn nr_writes(&self) -> u64 {
        // ORDERING: Relaxed; a statistic.
        self.counts.writes.load(Ordering::Relaxed)
    }

    /// How often the size was asked for so far.
    pub fn nr_sizes(&self) -> u64 {
        // ORDERING: Relaxed; a statistic.
        self.counts.sizes.load(Ordering::Relaxed)
    }

    /// How often the size was to be set so far.
    pub fn nr_set_sizes(&self) -> u64 {
        // ORDERING: Relaxed; a statistic.
        self.counts.set_sizes.load(Ordering::Relaxed)
    }

    /// How many calls of [`sync_data`](Backend::sync_data) there were so far.
    pub fn nr_sync_datas(&self) -> u64 {
        // ORDERING: Relaxed; a statistic.
        self.counts.sync_datas.load(Ordering::Relaxed)
    }

    /// How many calls of [`sync_all`](Backend::sync_all) there were so far.
    pub fn nr_sync_alls(&self) -> u64 {
        // ORDERING: Relaxed; a statistic.
        self.counts.sync_alls.load(Ordering::Relaxed)
    }

    /// Counts the call and asks what becomes of it.
    fn fault(&self, operation: &Operation) -> Fault {
        // ORDERING: Relaxed; a statistic.
        self.counts.of(operation).fetch_add(1, Ordering::Relaxed);
        (self.script)(operation)
    }

    /// A call for which there are only the faults that every call can have.
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

/// The script is wrong, and its author should know.
fn unfit(operation: &Operation, fault: &Fault) -> ! {
    panic!("a script has {fault:?} for {operation:?}, which cannot have it")
}

/// The first `len` bytes of the buffers, or all, if there are no more.
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

    #[cfg(not(loom))]
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
