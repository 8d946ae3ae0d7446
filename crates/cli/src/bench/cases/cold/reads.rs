//! Reads of pages that are not cached, for so long, by threads that begin together.

use std::fs::File;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use pagewell::ReadRequest;
use rustix::fs::{Mode, OFlags};

use super::file::{ColdFile, PAGE};
use crate::bench::crew::clock;
use crate::bench::data::Memory;
use crate::failure::{Failure, chain};

/// What was done, and what it took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turn {
    /// Operations, or MiB.
    pub(super) nr: f64,
    pub(super) ns: u64,
    pub(super) cpu_ns: u64,
}

impl Turn {
    pub(super) fn per_second(&self) -> f64 {
        self.nr * 1e9 / self.ns.max(1) as f64
    }

    /// Processor time for each.
    pub(super) fn cpu_ns_each(&self) -> f64 {
        self.cpu_ns as f64 / self.nr.max(1e-9)
    }

    fn add(&mut self, other: Turn) {
        self.nr += other.nr;
        self.ns += other.ns;
        self.cpu_ns += other.cpu_ns;
    }
}

/// Has so many threads do `work` at the same time, with what each got from `prepare`; it says how many operations it did. Only the work is timed.
pub(super) fn together<S>(
    threads: u32,
    prepare: impl Fn(usize) -> Result<S, String> + Sync,
    work: impl Fn(&mut S) -> Result<usize, String> + Sync,
) -> Result<Turn, Failure> {
    let (start, nr_done) = (Barrier::new(threads as usize + 1), AtomicUsize::new(0));
    let mut turn = Turn::default();
    thread::scope(|scope| {
        let (start, nr_done, prepare, work) = (&start, &nr_done, &prepare, &work);
        let run = move |number| -> Result<(), String> {
            let state = prepare(number);
            start.wait();
            let nr = work(&mut state?)?;
            // ORDERING: Relaxed; looked at after the thread was joined.
            nr_done.fetch_add(nr, Ordering::Relaxed);
            Ok(())
        };
        let workers: Vec<_> = (0..threads as usize)
            .map(|number| scope.spawn(move || run(number)))
            .collect();
        start.wait();
        let (begin, cpu) = (clock::now_ns(), clock::process_cpu_ns());
        for worker in workers {
            match worker.join() {
                Ok(outcome) => outcome.map_err(Failure::Run)?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        turn.ns = clock::now_ns() - begin;
        turn.cpu_ns = clock::process_cpu_ns() - cpu;
        Ok::<(), Failure>(())
    })?;
    // ORDERING: Relaxed; all were joined.
    turn.nr = nr_done.load(Ordering::Relaxed) as f64;
    Ok(turn)
}

/// Pages that threads share out among themselves, until a time.
pub(super) struct Pages<'o> {
    order: &'o [u32],
    nr_taken: AtomicUsize,
    time: Duration,
    /// Set by the first that asks, so that a late thread reads a page all the same.
    end: OnceLock<Instant>,
}

impl Pages<'_> {
    /// Fills `places` with the next ones, as many as it has room for, or fewer at the end; with none after the time.
    fn take(&self, places: &mut Vec<u64>) {
        places.clear();
        while places.len() < places.capacity()
            && let Some(pos) = self.next()
        {
            places.push(pos);
        }
    }

    /// The place of the next one; none at the end, or after the time.
    pub(super) fn next(&self) -> Option<u64> {
        let now = Instant::now();
        if now >= *self.end.get_or_init(|| now + self.time) {
            return None;
        }
        // ORDERING: Relaxed; each number is given out once.
        let page = self
            .order
            .get(self.nr_taken.fetch_add(1, Ordering::Relaxed))?;
        Some(u64::from(*page) * PAGE as u64)
    }
}

/// How a thread reads at random places.
pub(super) trait Random {
    /// Reads and checks pages until there are none; returns how many.
    fn run(&mut self, file: &ColdFile, pages: &Pages<'_>) -> Result<usize, String>;
}

/// A thread that reads so many pages at a time by a call, which gets their places and checks what was read.
pub(super) struct Batches<C> {
    depth: usize,
    call: C,
}

impl<C: FnMut(&ColdFile, &[u64]) -> Result<(), String>> Random for Batches<C> {
    fn run(&mut self, file: &ColdFile, pages: &Pages<'_>) -> Result<usize, String> {
        let (mut places, mut nr) = (Vec::with_capacity(self.depth), 0);
        loop {
            pages.take(&mut places);
            if places.is_empty() {
                return Ok(nr);
            }
            (self.call)(file, &places)?;
            nr += places.len();
        }
    }
}

/// Has threads read pages at random for so long.
pub(super) fn at_random<R: Random>(
    file: &mut ColdFile,
    threads: u32,
    time: Duration,
    reader: impl Fn(&ColdFile) -> Result<R, String> + Sync,
) -> Result<Turn, Failure> {
    let mut turn = Turn::default();
    while turn.ns < clock::to_ns(time) {
        let order = file.unread()?.to_vec();
        let left = time.saturating_sub(Duration::from_nanos(turn.ns));
        let pages = Pages {
            order: &order,
            nr_taken: AtomicUsize::new(0),
            time: left,
            end: OnceLock::new(),
        };
        let (file_now, before) = (&*file, file.nr_fills());
        let now = together(
            threads,
            |_| reader(file_now),
            |reader| reader.run(file_now, &pages),
        )?;
        let nr_fills = file.nr_fills() - before;
        // C1; neighbours may have been read ahead by chance.
        if nr_fills != 0 && (nr_fills as f64) < 0.9 * now.nr {
            return Err(Failure::Run(format!(
                "only {nr_fills} of {} reads missed the cache",
                now.nr
            )));
        }
        file.note_read(pages.nr_taken.into_inner());
        turn.add(now);
    }
    Ok(turn)
}

/// `read_many` of so many reads.
pub(super) fn read_many(depth: usize) -> Result<impl Random, String> {
    let mut memory = memory(depth * PAGE)?;
    let call = move |file: &ColdFile, places: &[u64]| {
        let bufs = memory.bytes_mut().chunks_exact_mut(PAGE);
        let mut requests: Vec<_> = places
            .iter()
            .zip(bufs)
            .map(|(pos, buf)| ReadRequest::new(*pos, buf))
            .collect();
        file.cached.read_many(&mut requests);
        for ReadRequest {
            offset,
            buf,
            result,
        } in requests
        {
            let nr = result.map_err(|error| chain(&error))?;
            check(file, &buf[..nr], offset)?;
        }
        Ok(())
    };
    Ok(Batches { depth, call })
}

/// `read_at`.
pub(super) fn blocking() -> Result<impl Random, String> {
    let mut memory = memory(PAGE)?;
    let call = move |file: &ColdFile, places: &[u64]| {
        for &pos in places {
            let buf = memory.bytes_mut();
            let nr = file.cached.read_at(buf, pos);
            let nr = nr.map_err(|error| chain(&error))?;
            check(file, &buf[..nr], pos)?;
        }
        Ok(())
    };
    Ok(Batches { depth: 1, call })
}

/// The system call.
pub(super) fn pread(file: &ColdFile) -> Result<impl Random + use<>, String> {
    let mut pread = Pread::new(file, PAGE)?;
    let call = move |file: &ColdFile, places: &[u64]| {
        places
            .iter()
            .try_for_each(|pos| pread.read_block(file, *pos))
    };
    Ok(Batches { depth: 1, call })
}

/// A file for the system call, and memory.
struct Pread {
    file: File,
    memory: Memory,
}

impl Pread {
    /// Reads blocks of so many bytes.
    fn new(file: &ColdFile, block: usize) -> Result<Pread, String> {
        let mut flags = OFlags::RDONLY | OFlags::CLOEXEC;
        if file.is_direct() {
            flags |= OFlags::DIRECT;
        }
        let opened = rustix::fs::open(&file.data.path, flags, Mode::empty());
        Ok(Pread {
            file: File::from(opened.map_err(|error| format!("cannot open the file: {error}"))?),
            memory: memory(block)?,
        })
    }

    /// Reads a block.
    fn read_block(&mut self, file: &ColdFile, pos: u64) -> Result<(), String> {
        let buf = self.memory.bytes_mut();
        let nr = rustix::io::pread(&self.file, &mut *buf, pos);
        let nr = nr.map_err(|error| format!("cannot read at {pos}: {error}"))?;
        check(file, &buf[..nr], pos)
    }
}

/// A file from end to end, and again, for so long; MiB.
pub(super) fn in_order(
    file: &mut ColdFile,
    block: usize,
    time: Duration,
    mut read: impl FnMut(&ColdFile, u64) -> Result<(), String> + Send,
) -> Result<Turn, Failure> {
    let mut turn = Turn::default();
    while turn.ns < clock::to_ns(time) {
        file.renew()?;
        let left = clock::to_ns(time) - turn.ns;
        let (begin, cpu) = (clock::now_ns(), clock::process_cpu_ns());
        let mut pos = 0;
        while pos < file.data.bytes && (pos == 0 || clock::now_ns() - begin < left) {
            read(file, pos).map_err(Failure::Run)?;
            pos += block as u64;
        }
        turn.add(Turn {
            nr: pos as f64 / f64::from(1 << 20),
            ns: clock::now_ns() - begin,
            cpu_ns: clock::process_cpu_ns() - cpu,
        });
    }
    Ok(turn)
}

/// Reads in order by `read_at`.
pub(super) fn in_order_blocking(
    file: &mut ColdFile,
    block: usize,
    time: Duration,
) -> Result<Turn, Failure> {
    let mut memory = memory(block).map_err(Failure::Run)?;
    in_order(file, block, time, |file, pos| {
        let buf = memory.bytes_mut();
        let nr = file.cached.read_at(buf, pos);
        let nr = nr.map_err(|error| chain(&error))?;
        check(file, &buf[..nr], pos)
    })
}

/// Reads in order by `pread`.
pub(super) fn in_order_pread(
    file: &mut ColdFile,
    block: usize,
    time: Duration,
) -> Result<Turn, Failure> {
    let mut pread = Pread::new(file, block).map_err(Failure::Run)?;
    in_order(file, block, time, |file, pos| pread.read_block(file, pos))
}

fn memory(bytes: usize) -> Result<Memory, String> {
    Memory::new(bytes, false).map_err(|failure| format!("{failure:?}"))
}

/// Whether what was read is whole pages, each that of its place.
#[inline]
pub(super) fn check(file: &ColdFile, bytes: &[u8], pos: u64) -> Result<(), String> {
    let pages = bytes.chunks_exact(PAGE);
    let is_whole = pages.remainder().is_empty() && !bytes.is_empty();
    let mut places = pages.zip((pos..).step_by(PAGE));
    match is_whole && places.all(|(page, pos)| file.is_stamped(page, pos)) {
        true => Ok(()),
        false => Err(format!(
            "{} bytes at {pos} are not those of the file",
            bytes.len()
        )),
    }
}
