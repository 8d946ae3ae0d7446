//! The thread that has a ring for requests that nobody waits for.
//!
//! Only this thread submits to its ring. So no thread of the program is interrupted by completions of what it has submitted, none has its calls of the
//! system end early for that (`epoll_wait` says EINTR then), and none that ends takes its requests with it: the kernel does all of that to threads which submit.
//!
//! # Protocol
//!
//! ```text
//! submitter                                     thread
//! 1 lock; push the job                          a lock; take jobs that may be begun
//! 2 does the thread sleep? then it will not     b it sleeps from now on; unlock
//! 3 unlock; wake it if it slept                 c begin the jobs; enter the ring, wait for one completion
//! ```
//!
//! The wake is a write to an event descriptor that is read in the ring all along, so there is one place to wait in. A submitter whose lock comes before (a) has
//! its job taken; one whose lock comes after (b) wakes. Nobody spins: in (c) the kernel has the thread sleep until there is a completion.

#![allow(unsafe_code)] // The event descriptor, and its read in the ring.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use io_uring::{opcode, types};

use super::pool::Pool;
use super::ring::{Outcome, Ring, Use};
use crate::engine::job::Job;
use crate::engine::queue::{OfStorage, Queue};
use crate::engine::settings::{Refusal, UringSettings};

/// Where jobs wait for the thread.
#[derive(Debug)]
pub(super) struct Inbox {
    state: Mutex<State>,
    /// What the thread reads from in its ring.
    event: File,
}

#[derive(Debug)]
struct State {
    queue: Queue<Job>,
    /// The thread looks at the queue again when it is woken, not before.
    sleeps: bool,
    is_closed: bool,
    /// The ring is not to be had any more: jobs are for the threads.
    is_given_up: bool,
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the thread `jobs`. Gives them back if there is no ring for them any more.
    pub(super) fn push(&self, jobs: impl IntoIterator<Item = Job>) -> Vec<Job> {
        let mut back = Vec::new();
        self.change(|state| {
            if state.is_given_up {
                back.extend(jobs);
            } else {
                jobs.into_iter().for_each(|job| state.queue.push(job));
            }
        });
        back
    }

    /// The thread is to end when there is nothing left to do.
    pub(super) fn close(&self) {
        self.change(|state| state.is_closed = true);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        // If nothing may be begun, there is nothing to be woken for.
        let must_look = state.is_closed || state.queue.nr_ready() != 0;
        let wakes = must_look && std::mem::take(&mut state.sleeps);
        drop(state);
        if wakes {
            // It adds to a number, which would have to be near 2^64 to make this wait.
            let _ = (&self.event).write_all(&1_u64.to_ne_bytes());
        }
    }
}

/// Starts the thread; returns when its ring was seen to work.
pub(super) fn start(settings: UringSettings, pool: &Arc<Pool>) -> Result<Arc<Inbox>, Refusal> {
    let event = event().map_err(|error| Refusal::Refused(errno(&error)))?;
    let inbox = Arc::new(Inbox {
        state: Mutex::new(State {
            queue: Queue::new(settings.per_storage),
            sleeps: false,
            is_closed: false,
            is_given_up: false,
        }),
        event,
    });
    let (pool, for_thread) = (Arc::clone(pool), Arc::clone(&inbox));
    let (answer, is_there) = mpsc::channel();
    thread::Builder::new()
        .name("pagewell-uring".into())
        .spawn(move || {
            // Made here: the kernel wants to be entered by the thread that has made it.
            match Ring::new(settings.depth, Use::OneThread) {
                Ok(ring) => {
                    let _ = answer.send(Ok(()));
                    Thread::new(ring, for_thread, pool).run();
                }
                Err(refusal) => {
                    let _ = answer.send(Err(refusal));
                }
            }
        })
        .map_err(|error| Refusal::NoThread(errno(&error)))?;
    match is_there.recv() {
        Ok(answer) => answer.map(|()| inbox),
        Err(_) => Err(Refusal::NoThread(0)),
    }
}

fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EINVAL)
}

/// A descriptor that is readable when something was written to it.
fn event() -> io::Result<File> {
    // SAFETY: no memory.
    match unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: just opened, and nobody else's.
        descriptor => Ok(unsafe { File::from_raw_fd(descriptor) }),
    }
}

struct Thread {
    ring: Ring,
    inbox: Arc<Inbox>,
    pool: Arc<Pool>,
    /// Where the read of the event goes. On the heap, and leaked if the read is still there at the end.
    woken: Box<u64>,
    is_listening: bool,
}

impl Thread {
    fn new(ring: Ring, inbox: Arc<Inbox>, pool: Arc<Pool>) -> Self {
        Self {
            ring,
            inbox,
            pool,
            woken: Box::new(0),
            is_listening: false,
        }
    }

    fn run(mut self) {
        let mut outcomes = Vec::new();
        let mut jobs = Vec::new();
        loop {
            self.listen();
            let is_over = self.take(&mut jobs);
            for job in jobs.drain(..) {
                let key = job.key();
                let outcome = self.ring.begin(job);
                outcomes.extend(outcome.map(|outcome| (key, outcome)));
            }
            let is_idle = self.ring.nr_in_flight() == 0 && outcomes.is_empty();
            if is_over && is_idle && !self.is_listening {
                return;
            }
            // With outcomes in hand it only looks, since others may wait for them.
            let nr = usize::from(outcomes.is_empty());
            if self.ring.enter(nr).is_err() {
                self.ring.give_up(|outcome| outcomes.extend(keyed(outcome)));
                self.settle(&mut outcomes);
                return self.finish();
            }
            self.reap(&mut outcomes);
            self.settle(&mut outcomes);
        }
    }

    fn reap(&mut self, outcomes: &mut Vec<(usize, Outcome)>) {
        let is_listening = &mut self.is_listening;
        self.ring.reap(|outcome| match outcome {
            Outcome::Other => *is_listening = false,
            outcome => outcomes.extend(keyed(outcome)),
        });
    }

    /// The kernel refuses to be called, as when the program has shut itself in a sandbox. What waits, and all that comes, is for the threads. What the
    /// kernel has it completes, since this thread goes on making calls of other kinds ([`Use::OneThread`]).
    fn finish(mut self) {
        self.inbox.lock().is_given_up = true;
        let mut outcomes = Vec::new();
        let mut jobs = Vec::new();
        loop {
            self.take(&mut jobs);
            outcomes.extend(jobs.drain(..).map(|job| (job.key(), Outcome::Calls(job))));
            self.reap(&mut outcomes);
            let is_at_rest = outcomes.is_empty() && self.ring.nr_in_flight() == 0;
            self.settle(&mut outcomes);
            if is_at_rest && self.inbox.lock().queue.is_at_rest() {
                return;
            }
            // There is nothing that it could wait in.
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Takes the jobs that may be begun; returns whether no more will come.
    fn take(&mut self, jobs: &mut Vec<Job>) -> bool {
        let room = match self.ring.is_given_up() {
            true => usize::MAX,
            false => self.ring.room(),
        };
        let mut state = self.inbox.lock();
        while jobs.len() < room
            && let Some(job) = state.queue.pop()
        {
            jobs.push(job);
        }
        // If there is no room, a completion comes, which makes some; then it looks again.
        state.sleeps = true;
        state.is_closed && state.queue.is_at_rest()
    }

    /// Completes jobs, and has the storages' calls made for others.
    fn settle(&self, outcomes: &mut Vec<(usize, Outcome)>) {
        if outcomes.is_empty() {
            return;
        }
        {
            let mut state = self.inbox.lock();
            // It looks at the queue before it waits again: what completions give needs no wake.
            state.sleeps = false;
            for (key, _) in outcomes.iter() {
                state.queue.done(*key);
            }
        }
        for (_, outcome) in outcomes.drain(..) {
            match outcome {
                Outcome::Done(job, result) => job.complete(result),
                Outcome::Calls(job) => self.pool.call(job, None),
                Outcome::Other => {}
            }
        }
    }

    /// Has the event read in the ring, if it is not. When there is no room, completions are coming, and it is tried again after them.
    fn listen(&mut self) {
        if self.is_listening || self.ring.is_given_up() || self.inbox.lock().is_closed {
            return;
        }
        let descriptor = types::Fd(self.inbox.event.as_raw_fd());
        let to = std::ptr::from_mut(&mut *self.woken).cast();
        let entry = opcode::Read::new(descriptor, to, 8).build();
        // SAFETY: the memory is on the heap, and stays there until the read is done (`drop`); the event is open as long as the inbox is, which this
        // thread has. The ring leaves an entry free for what is no job, and there is one such.
        unsafe { self.ring.push_other(entry) };
        self.is_listening = true;
    }
}

/// An outcome of a job, and the key of its storage.
fn keyed(outcome: Outcome) -> Option<(usize, Outcome)> {
    let key = match &outcome {
        Outcome::Done(job, _) | Outcome::Calls(job) => job.key(),
        Outcome::Other => return None,
    };
    Some((key, outcome))
}

impl Drop for Thread {
    fn drop(&mut self) {
        if self.is_listening {
            // The kernel may still write there.
            Box::leak(std::mem::take(&mut self.woken));
        }
    }
}
