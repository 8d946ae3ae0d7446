//! The storage of a simulated program: late, failing, and at the wrong place.
//!
//! It stands under the engine and under the calls that threads make themselves, so both meet the same faults. A call takes time before and after it does its work, and between two parts
//! of a transfer: then others have their turn.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pagewell::io::{Backend, FileId, RacyBytes, RacySource, Transfers};
use pagewell_sync::thread::sleep;
use pagewell_testkit::Rng;

use super::books::Books;
use super::plan::{LARGEST, Storage};
use crate::block::BLOCK;
use crate::script::{EIO, ENOSPC, errno};

/// What goes wrong, and what has.
#[derive(Debug)]
pub(super) struct Wrongs {
    rng: Rng,
    faults: Storage,
    pub(super) nr_failed: u64,
    pub(super) nr_misdirected: u64,
}

/// A backend with these faults.
#[derive(Debug)]
pub(super) struct Faulty<B> {
    inner: B,
    wrongs: Arc<Mutex<Wrongs>>,
    books: Arc<Mutex<Books>>,
}

impl Wrongs {
    pub(super) fn new(seed: u64, faults: Storage) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self {
            rng: Rng::part(seed, 11),
            faults,
            nr_failed: 0,
            nr_misdirected: 0,
        }))
    }

    /// From now on everything works.
    pub(super) fn heal(&mut self) {
        self.faults = Storage {
            late: 0,
            failed: 0,
            misdirected: 0,
        };
    }

    fn happens(&mut self, in_256: u64) -> bool {
        self.rng.below(256) < in_256
    }
}

impl<B: Backend> Faulty<B> {
    pub(super) fn new(inner: B, wrongs: &Arc<Mutex<Wrongs>>, books: &Arc<Mutex<Books>>) -> Self {
        Self {
            inner,
            wrongs: Arc::clone(wrongs),
            books: Arc::clone(books),
        }
    }

    fn wrongs<T>(&self, ask: impl FnOnce(&mut Wrongs) -> T) -> T {
        ask(&mut self.wrongs.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes time, now and then.
    fn pause(&self) {
        let time = self.wrongs(|wrongs| {
            let is_late = wrongs.happens(wrongs.faults.late);
            is_late.then(|| Duration::from_micros(wrongs.rng.below(800)))
        });
        if let Some(time) = time {
            sleep(time);
        }
    }

    /// The error by which the call fails, if it does.
    fn failure(&self) -> Option<io::Error> {
        self.wrongs(|wrongs| {
            let fails = wrongs.happens(wrongs.faults.failed);
            wrongs.nr_failed += u64::from(fails);
            fails.then(|| errno(if wrongs.rng.one_in(3) { ENOSPC } else { EIO }))
        })
    }

    /// A call that does nothing in parts.
    fn call<T>(&self, call: impl FnOnce(&B) -> io::Result<T>) -> io::Result<T> {
        self.pause();
        let failure = self.failure();
        let is_done = failure.is_none() || self.wrongs(|wrongs| wrongs.rng.one_in(2));
        let result = is_done.then(|| call(&self.inner));
        self.pause();
        match (failure, result) {
            (None, Some(result)) => result,
            (Some(error), _) => Err(error),
            (None, None) => Err(errno(EIO)),
        }
    }

    /// Where a transfer of `len` bytes at `pos` goes, and where its two parts meet.
    fn aim(&self, pos: u64, len: usize) -> (u64, usize) {
        let size = self.inner.size().unwrap_or(0);
        let to = self.wrongs(|wrongs| {
            let is_misdirected = wrongs.happens(wrongs.faults.misdirected);
            // Somewhere else in the file.
            let nr = size.checked_sub(len as u64)? / BLOCK as u64 + 1;
            is_misdirected.then(|| wrongs.rng.below(nr) * BLOCK as u64)
        });
        let part = self.wrongs(|wrongs| wrongs.rng.index(len / BLOCK + 1) * BLOCK);
        (to.unwrap_or(pos), part)
    }

    /// A transfer went to `to` in place of `pos`: nothing is known of the pages there any more. Where the file has hooks on its bytes that know a page by its content, it is they
    /// that must notice, and nothing is tainted.
    fn taint(&self, pos: u64, to: u64, len: usize) {
        if pos == to {
            return;
        }
        self.wrongs(|wrongs| wrongs.nr_misdirected += 1);
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        let nr_blocks = books.tainted.len();
        // Pages are read and written as a whole.
        for start in [pos, to] {
            let first = start as usize / BLOCK / LARGEST * LARGEST;
            let end = (start as usize + len)
                .div_ceil(BLOCK)
                .next_multiple_of(LARGEST);
            books.tainted[first.min(nr_blocks)..end.min(nr_blocks)].fill(true);
        }
    }
}

/// The bytes of `bufs` from `range.start` on, as far as `range` goes.
fn part<'a, T: Into<RacySource<'a>> + Copy>(
    bufs: &[T],
    range: Range<usize>,
    slice: impl Fn(T, usize, usize) -> T,
) -> Vec<T> {
    let (mut skip, mut left) = (range.start, range.len());
    let mut list = Vec::new();
    for &buf in bufs {
        let len = buf.into().len();
        let start = skip.min(len);
        let nr = (len - start).min(left);
        (skip, left) = (skip - start, left - nr);
        if nr != 0 {
            list.push(slice(buf, start, nr));
        }
    }
    list
}

fn total<'a, T: Into<RacySource<'a>> + Copy>(bufs: &[T]) -> usize {
    bufs.iter().map(|buf| (*buf).into().len()).sum()
}

impl<B: Backend> Backend for Faulty<B> {
    fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize> {
        let len = total(bufs);
        self.pause();
        let (to, middle) = self.aim(pos, len);
        self.taint(pos, to, len);
        let middle = middle.min(len);
        let first = part(bufs, 0..middle, RacyBytes::slice);
        let nr_first = self.inner.read_at(&first, to)?;
        if nr_first < middle {
            return Ok(nr_first);
        }
        self.pause();
        if let Some(error) = self.failure() {
            return Err(error);
        }
        let rest = part(bufs, middle..len, RacyBytes::slice);
        let nr_rest = self.inner.read_at(&rest, to + middle as u64)?;
        self.pause();
        Ok(nr_first + nr_rest)
    }

    fn write_at(&self, bufs: &[RacySource<'_>], pos: u64) -> io::Result<()> {
        let len = total(bufs);
        self.pause();
        let (to, middle) = self.aim(pos, len);
        let middle = middle.min(len);
        self.taint(pos, to, len);
        self.inner
            .write_at(&part(bufs, 0..middle, RacySource::slice), to)?;
        self.pause();
        if let Some(error) = self.failure() {
            return Err(error);
        }
        let rest = part(bufs, middle..len, RacySource::slice);
        self.inner.write_at(&rest, to + middle as u64)?;
        self.pause();
        Ok(())
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

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.call(|inner| inner.set_size(size))
    }

    fn check_size(&self, size: u64) -> io::Result<()> {
        self.inner.check_size(size)
    }

    fn begin_sync(&self, range: Range<u64>) -> io::Result<()> {
        self.inner.begin_sync(range)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.call(B::sync_data)
    }

    fn sync_all(&self) -> io::Result<()> {
        self.call(B::sync_all)
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
