//! One io_uring ring, which one thread at a time uses, and the jobs that the kernel has.
//!
//! # Why the kernel never uses freed memory
//!
//! - U1: A job whose memory, list of spans and descriptor the kernel uses is in [`Ring::flights`]
//!   from before the push of its entry until [`Ring::reap`] or (U3) [`Ring::give_up`] removes it.
//! - U2: A ring that has flights is never closed: [`Ring::drop`] leaks the flights and the ring.
//! - U3: [`Ring::give_up`] removes a job whose entry was pushed but not consumed. The kernel never
//!   consumes it, because no later call submits entries.
//! - U4: The kernel copies entries and lists of spans when it consumes an entry
//!   (`IORING_FEAT_SUBMIT_STABLE`, which a ring requires). The memory of the spans stays valid by
//!   R1 to R3 of [`crate::backend`]'s requests.
//!
//! In a child of `fork` the ring's memory is not mapped (`dontfork`), so callers check the process.

#![allow(unsafe_code)] // Entries with raw memory are pushed.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::time::Duration;

use io_uring::{EnterFlags, IoUring, opcode, squeue, types};

use crate::backend::Kind;
use crate::engine::interface::MOST_SPANS;
use crate::engine::job::{Job, Steps as _};
use crate::engine::settings::Refusal;
use crate::file::MOST_BYTES;

/// Maximum number of bytes per transfer in the kernel.
const MOST_TRANSFER: usize = 0x7fff_f000;

/// Number of pushed entries at which [`Ring::begin`] submits them. The kernel passes a batch to the
/// device at the end of the submission, so in a larger batch the first would wait for the last.
const AT_ONCE: usize = 8;

const NOT_A_JOB: u64 = u64::MAX;

#[derive(Debug)]
pub(super) enum Outcome {
    Done(Job, io::Result<usize>),
    /// The backend's own calls must perform the job, or the rest of it.
    Calls(Job),
    /// An entry that is not a job is done.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// One thread uses the ring. The kernel runs deferred completion work when this thread makes
    /// any system call. (`DEFER_TASKRUN` would require a call on the ring. If a sandbox later
    /// forbids that call, no request would complete, not even when the thread exits.)
    OneThread,
    /// Different threads use the ring, one after the other.
    Any,
}

pub(super) struct Ring {
    uring: mem::ManuallyDrop<IoUring>,
    /// Jobs that were begun (U1), by the number in their entries.
    flights: Vec<Option<Job>>,
    free: Vec<u32>,
    /// Numbers of the jobs whose entries must be pushed again, for the rest of their transfers.
    again: VecDeque<u32>,
    /// User data of the pushed entries that the kernel may not have consumed yet, in order.
    pushed: VecDeque<u64>,
    nr_in_flight: usize,
    is_given_up: bool,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring")
            .field("nr_in_flight", &self.nr_in_flight)
            .field("is_given_up", &self.is_given_up)
            .finish_non_exhaustive()
    }
}

impl Ring {
    pub(super) fn new(depth: u32, usage: Use) -> Result<Self, Refusal> {
        let uring = set_up(depth, usage).map_err(|error| refused(&error))?;
        let params = uring.params();
        for (has, what) in [
            (
                params.is_feature_nodrop(),
                "completions that are never dropped (Linux 5.5)",
            ),
            (
                params.is_feature_submit_stable(),
                "entries that are copied (Linux 5.5)",
            ),
            (
                params.is_feature_fast_poll(),
                "reads that wait without a thread (Linux 5.7)",
            ),
        ] {
            if !has {
                return Err(Refusal::Lacks(what));
            }
        }
        let depth = depth.min(params.cq_entries() - 1);
        let mut ring = Self {
            uring: mem::ManuallyDrop::new(uring),
            flights: (0..depth).map(|_| None).collect(),
            free: (0..depth).rev().collect(),
            again: VecDeque::new(),
            pushed: VecDeque::new(),
            nr_in_flight: 0,
            is_given_up: false,
        };
        ring.try_out()?;
        Ok(ring)
    }

    /// Performs a no-op: a sandbox may permit a ring to be created but not to be entered.
    fn try_out(&mut self) -> Result<(), Refusal> {
        let nothing = opcode::Nop::new().build().user_data(NOT_A_JOB);
        // SAFETY: the entry refers to no memory.
        unsafe { self.push(&nothing) };
        loop {
            if let Err(error) = self.enter(1) {
                return Err(refused(&error));
            }
            let mut is_done = false;
            self.reap(|_| is_done = true);
            if is_done {
                return Ok(());
            }
        }
    }

    pub(super) fn nr_in_flight(&self) -> usize {
        self.nr_in_flight
    }

    /// Returns the number of jobs that can begin now: any number if the ring is given up, since
    /// [`begin`](Self::begin) returns them.
    pub(super) fn room(&mut self) -> usize {
        if self.is_given_up {
            return usize::MAX;
        }
        let entries = self.room_for_entries();
        // The jobs in `again` have priority. One entry is reserved for `push_other`.
        self.free
            .len()
            .min(entries.saturating_sub(self.again.len() + 1))
    }

    /// Returns `true` if the ring starts no job, and only completes those that the kernel has.
    pub(super) fn is_given_up(&self) -> bool {
        self.is_given_up
    }

    fn room_for_entries(&mut self) -> usize {
        let queue = self.uring.submission();
        queue.capacity() - queue.len()
    }

    /// Pushes an entry. Panics if the submission queue is full. Safety: memory that the entry
    /// refers to stays valid until its completion is reaped.
    unsafe fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: as the caller guarantees.
        let result = unsafe { self.uring.submission().push(entry) };
        assert!(result.is_ok(), "no room in the submission queue");
        self.pushed.push_back(entry.get_user_data());
    }

    /// Pushes an entry that is not a job, into reserved room. Safety: as for [`push`](Self::push).
    pub(super) unsafe fn push_other(&mut self, entry: squeue::Entry) {
        // SAFETY: as the caller guarantees.
        unsafe { self.push(&entry.user_data(NOT_A_JOB)) };
    }

    /// Starts `job`, for which there is [room](Self::room), or returns its outcome.
    pub(super) fn begin(&mut self, job: Job) -> Option<Outcome> {
        let request = job.request();
        let kind = request.kind();
        let end = request.pos().checked_add(request.nr_left() as u64);
        // The kernel interprets a position of all ones as the current file position.
        let may = matches!(kind, Kind::Read | Kind::Write)
            && end.is_some_and(|end| end <= MOST_BYTES)
            && !self.is_given_up;
        let Some(raw) = job.raw_file().filter(|_| may) else {
            return Some(Outcome::Calls(job));
        };
        match raw.begin(request) {
            Err(error) => return Some(Outcome::Done(job, Err(error))),
            Ok(false) => return Some(Outcome::Calls(job)),
            Ok(true) if request.nr_left() == 0 => {
                raw.end(kind);
                return Some(Outcome::Done(job, Ok(0)));
            }
            Ok(true) => {}
        }
        let number = self.free.pop().expect("no room in the ring");
        // U1: the job is in its slot before its entry is created.
        self.flights[number as usize] = Some(job);
        self.nr_in_flight += 1;
        self.push_entry_of(number);
        if self.pushed.len() >= AT_ONCE {
            // An error is ignored: if it persists, the next call reports it.
            let _ = self.enter(0);
        }
        None
    }

    fn push_entry_of(&mut self, number: u32) {
        let Some(job) = &self.flights[number as usize] else {
            return;
        };
        let Some(raw) = job.raw_file() else {
            unreachable!("only jobs with a raw file are begun");
        };
        let entry = entry_of(job, types::Fd(raw.descriptor().as_raw_fd()), number);
        // SAFETY: by U1 the job, which keeps the memory, the list of spans and the descriptor's
        // file, stays in `flights` until its completion is reaped. See also U4.
        unsafe { self.push(&entry) };
    }

    /// Submits the pushed entries, and waits for `nr` completions. May return early. After an
    /// error, the caller must [`give_up`](Self::give_up).
    pub(super) fn enter(&mut self, nr: usize) -> io::Result<()> {
        self.push_again();
        let result = if self.is_given_up {
            let flags = EnterFlags::GETEVENTS.bits();
            // SAFETY: the call submits no entry and passes no memory.
            unsafe {
                self.uring
                    .submitter()
                    .enter::<libc::sigset_t>(0, nr as u32, flags, None)
            }
        } else {
            self.uring.submit_and_wait(nr)
        };
        match result {
            Ok(_) => {}
            Err(error) => match error.raw_os_error() {
                Some(libc::EINTR) => {}
                // The kernel lacks memory, or completions must be reaped first. Do not spin.
                Some(libc::EAGAIN | libc::EBUSY) => {
                    if self.uring.completion().is_empty() {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
                _ => return Err(error),
            },
        }
        let nr_left = self.uring.submission().len();
        while self.pushed.len() > nr_left {
            self.pushed.pop_front();
        }
        Ok(())
    }

    /// Pushes the entries of the jobs in `again`, as far as the submission queue has room.
    fn push_again(&mut self) {
        while !self.again.is_empty() && !self.is_given_up && self.room_for_entries() > 1 {
            let Some(number) = self.again.pop_front() else {
                return;
            };
            self.push_entry_of(number);
        }
    }

    /// Calls `each` for each job that leaves the ring, and for each other entry that is done.
    /// Returns the number of completions.
    pub(super) fn reap(&mut self, mut each: impl FnMut(Outcome)) -> usize {
        let mut nr = 0;
        // One at a time: the queue borrows the ring, which each completion changes.
        loop {
            let Some(completion) = self.uring.completion().next() else {
                return nr;
            };
            nr += 1;
            let result = completion.result();
            let number = completion.user_data();
            if number == NOT_A_JOB {
                each(Outcome::Other);
                continue;
            }
            let Some(job) = self.flights[number as usize].as_mut() else {
                unreachable!("the kernel completes what it was given, once");
            };
            match advance(job, result) {
                Step::Again if !self.is_given_up => self.again.push_back(number as u32),
                step => {
                    // U1: the entry is completed, so the kernel no longer uses the job's memory.
                    let job = self.release(number as u32);
                    each(match step {
                        Step::Done(result) => Outcome::Done(job, result),
                        Step::Calls | Step::Again => Outcome::Calls(job),
                    });
                }
            }
        }
    }

    /// Removes a job that the kernel no longer uses, or whose entry it will never consume.
    fn release(&mut self, number: u32) -> Job {
        let job = self.flights[number as usize]
            .take()
            .expect("a job with this number");
        self.free.push(number);
        self.nr_in_flight -= 1;
        if let Some(raw) = job.raw_file() {
            raw.end(job.request().kind());
        }
        job
    }

    /// Stops submission for good, after the kernel has rejected a call. Calls `each` with the jobs
    /// that the kernel does not have: those in `again`, and those of U3.
    pub(super) fn give_up(&mut self, mut each: impl FnMut(Outcome)) {
        let is_first = !mem::replace(&mut self.is_given_up, true);
        if !is_first {
            return;
        }
        let mut back: Vec<u32> = self.again.drain(..).collect();
        let nr_left = self.uring.submission().len();
        while self.pushed.len() > nr_left {
            self.pushed.pop_front();
        }
        let pushed = mem::take(&mut self.pushed);
        back.extend(
            pushed
                .into_iter()
                .filter(|&nr| nr != NOT_A_JOB)
                .map(|nr| nr as u32),
        );
        for number in back {
            let job = self.release(number);
            each(Outcome::Calls(job));
        }
    }

    /// Waits until the kernel has completed all jobs of a ring, after [`give_up`](Self::give_up).
    pub(super) fn drain(&mut self, mut each: impl FnMut(Outcome)) {
        while self.nr_in_flight != 0 {
            // Even if the wait is rejected, requests complete while this thread makes system calls.
            if self.enter(1).is_err() {
                std::thread::sleep(Duration::from_millis(1));
            }
            self.reap(&mut each);
        }
    }

    /// Leaks the ring without accessing it, in a child of `fork`.
    pub(super) fn forget(self) {
        mem::forget(self);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.nr_in_flight != 0 {
            // U2. The jobs never complete. Only a panic in this crate can lead here.
            mem::forget(mem::take(&mut self.flights));
            return;
        }
        // SAFETY: this is the drop of `self`, so `uring` is not used again.
        unsafe { mem::ManuallyDrop::drop(&mut self.uring) };
    }
}

enum Step {
    Done(io::Result<usize>),
    Again,
    Calls,
}

fn advance(job: &mut Job, result: i32) -> Step {
    let request = job.request_mut();
    let Ok(nr) = usize::try_from(result) else {
        return match -result {
            libc::EINTR => Step::Again,
            // Some kernels return EAGAIN instead of waiting, or ECANCELED if the submitting thread
            // exits. EINVAL and EOPNOTSUPP may mean a wrong alignment or an unsupported call.
            libc::EAGAIN | libc::ECANCELED | libc::EINVAL | libc::EOPNOTSUPP => Step::Calls,
            errno => Step::Done(Err(io::Error::from_raw_os_error(errno))),
        };
    };
    request.advance(nr);
    let (nr_done, pos) = (request.nr_done(), request.pos());
    let is_all = request.nr_left() == 0;
    let kind = request.kind();
    // The ring cannot continue a transfer that stopped within a block before the end of the file.
    let raw = job.raw_file();
    let is_within = !pos.is_multiple_of(raw.map_or(1, |raw| raw.unit()));
    match kind {
        Kind::Write if nr == 0 => Step::Done(Err(io::ErrorKind::WriteZero.into())),
        _ if is_all || nr == 0 => Step::Done(Ok(nr_done)),
        Kind::Read if is_within && raw.is_some_and(|raw| raw.ends_at(pos)) => {
            Step::Done(Ok(nr_done))
        }
        _ if is_within => Step::Calls,
        _ => Step::Again,
    }
}

fn entry_of(job: &Job, descriptor: types::Fd, number: u32) -> squeue::Entry {
    let request = job.request();
    let (spans, pos) = (request.spans(), request.pos());
    // A `Span` has the layout of the kernel's `iovec`.
    let list = spans.as_ptr().cast();
    let nr = spans.len().min(MOST_SPANS) as u32;
    let entry = match (request.kind(), spans) {
        (Kind::Write, [one]) => opcode::Write::new(descriptor, one.start(), len_of(one.len()))
            .offset(pos)
            .build(),
        (Kind::Write, _) => opcode::Writev::new(descriptor, list, nr)
            .offset(pos)
            .build(),
        (_, [one]) => opcode::Read::new(descriptor, one.start(), len_of(one.len()))
            .offset(pos)
            .build(),
        _ => opcode::Readv::new(descriptor, list, nr).offset(pos).build(),
    };
    entry.user_data(u64::from(number))
}

fn len_of(len: usize) -> u32 {
    len.min(MOST_TRANSFER) as u32
}

fn refused(error: &io::Error) -> Refusal {
    Refusal::Refused(error.raw_os_error().unwrap_or(libc::EINVAL))
}

const MOST_ENTRIES: u32 = 256;

fn set_up(depth: u32, usage: Use) -> io::Result<IoUring> {
    let entries = depth.clamp(8, MOST_ENTRIES);
    let mut result = Err(io::Error::from_raw_os_error(libc::EINVAL));
    // Older kernels reject unknown flags, so try the newest first.
    for (is_newer, is_newest) in [(true, true), (true, false), (false, false)] {
        if is_newest && matches!(usage, Use::Any) {
            continue;
        }
        let mut builder = IoUring::builder();
        // One more than the number of jobs, for an entry that is not a job.
        builder
            .dontfork()
            .setup_cqsize((depth + 1).max(entries + 1).next_power_of_two());
        if is_newer {
            builder
                .setup_submit_all()
                .setup_coop_taskrun()
                .setup_taskrun_flag();
        }
        if is_newest {
            builder.setup_single_issuer();
        }
        result = builder.build(entries);
        match &result {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            _ => break,
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::MemoryBackend;
    use crate::backend::{Request, Span};

    /// Creates a job for `len` bytes from position 1000 on, which is never submitted.
    fn job(kind: Kind, len: usize) -> Job {
        let span = Span::new(std::ptr::without_provenance_mut(8192), len);
        let ignore = Box::new(|_: io::Result<usize>| ());
        let request = match kind {
            // SAFETY: (a) holds because the memory is never accessed.
            Kind::Write => unsafe { Request::write(1000, span, ignore) },
            // SAFETY: (a), (b): as above.
            _ => unsafe { Request::read(1000, span, ignore) },
        };
        Job::new(Arc::new(MemoryBackend::writable(Vec::new())), request)
    }

    fn said(step: Step) -> String {
        match step {
            Step::Again => "again".into(),
            Step::Calls => "calls".into(),
            Step::Done(Ok(nr)) => format!("{nr}"),
            Step::Done(Err(error)) => format!("{:?}", error.kind()),
        }
    }

    #[test]
    fn what_the_kernel_says_of_a_part_is_not_taken_for_the_whole() {
        let mut read = job(Kind::Read, 4096);
        for (result, step, left) in [
            (-libc::EINTR, "again", 4096),
            (100, "again", 3996),
            (3000, "again", 996),
            (996, "4096", 0),
        ] {
            assert_eq!(said(advance(&mut read, result)), step);
            let request = read.request();
            assert_eq!(
                (request.nr_left(), request.pos()),
                (left, 5096 - left as u64)
            );
        }
        let mut read = job(Kind::Read, 4096);
        assert_eq!(said(advance(&mut read, 7)), "again");
        assert_eq!(said(advance(&mut read, 0)), "7", "the end of the file");

        let mut write = job(Kind::Write, 4096);
        assert_eq!(said(advance(&mut write, 1)), "again");
        assert_eq!(said(advance(&mut write, -libc::EAGAIN)), "calls");
        assert_eq!(
            (write.request().nr_left(), write.request().pos()),
            (4095, 1001)
        );
        assert_eq!(said(advance(&mut write, 4095)), "4096");
        assert_eq!(said(advance(&mut job(Kind::Write, 9), 0)), "WriteZero");
        for errno in [libc::ECANCELED, libc::EINVAL, libc::EOPNOTSUPP] {
            assert_eq!(said(advance(&mut job(Kind::Read, 9), -errno)), "calls");
        }
        assert_eq!(
            said(advance(&mut job(Kind::Write, 9), -libc::ENOSPC)),
            "StorageFull"
        );
    }

    #[test]
    fn a_ring_says_how_many_it_takes_and_gives_back_what_the_kernel_did_not_take() {
        let Ok(mut ring) = Ring::new(8, Use::Any) else {
            return pagewell_testkit::skip::skipped("no io_uring");
        };
        let room = ring.room();
        assert!((7..=8).contains(&room));
        let file = pagewell_testkit::scratch::file();
        std::fs::write(file.path(), [1; 4096]).unwrap();
        let file = Arc::new(crate::FileBackend::open(file.path()).unwrap());
        let words: Vec<_> = (0..512)
            .map(|_| std::sync::atomic::AtomicU64::new(0))
            .collect();
        let read = || {
            let span = Span::new(words.as_ptr().cast_mut().cast(), 4096);
            // SAFETY: (a) the words outlive the ring; (b) nothing reads them before `give_up`.
            let request = unsafe { Request::read(0, span, Box::new(|_: io::Result<usize>| ())) };
            Job::new(file.clone(), request)
        };
        for _ in 0..room {
            assert!(ring.begin(read()).is_none());
        }
        assert_eq!((ring.room(), ring.nr_in_flight()), (0, room));
        // Proceed as if the kernel rejected all calls.
        let mut nr_back = 0;
        ring.give_up(|outcome| nr_back += usize::from(matches!(outcome, Outcome::Calls(_))));
        assert_eq!((nr_back, ring.nr_in_flight()), (room, 0));
        assert!(matches!(ring.begin(read()), Some(Outcome::Calls(_))));
        // The kernel never consumes the entries in the queue, and no request completes.
        ring.enter(0).unwrap();
        assert_eq!(ring.reap(|_| panic!("a completion")), 0);
        assert!(
            words
                .iter()
                .all(|word| word.load(std::sync::atomic::Ordering::Relaxed) == 0)
        );
    }
}
