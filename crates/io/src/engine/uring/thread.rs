//! The engine's thread, which has a ring for requests for which no thread waits.
//!
//! Only this thread submits to the ring: the kernel interrupts system calls of the submitting
//! thread (`epoll_wait` with EINTR) to complete requests, and cancels its requests when it exits.
//!
//! # Protocol
//!
//! ```text
//! submitter                                     thread
//! 1 lock; push the job                          a lock; take the jobs that may be started
//! 2 if the thread is parked, unpark it          b park; unlock
//! 3 unlock; write the event if 2 unparked it    c start the jobs; enter the ring and wait
//! ```
//!
//! While its [`Phase`] is `Running`, the thread waits in the ring, which contains a read of the
//! event descriptor. If a submitter locks before (a), the thread takes its job. Otherwise the
//! submitter wakes the thread if it is parked. A job beyond the limits is taken after a completion.
//!
//! Closing always writes the event: the thread ends only after its read of the event ([`Turn`]).

#![allow(unsafe_code)] // The event descriptor, and its read in the ring.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use io_uring::{opcode, types};
use pagewell_sync::ledger::{self, Resource};
use pagewell_sync::parking::keep_wakers;
use pagewell_sync::thread::spawn;

use super::lane::Pool;
use super::ring::{Outcome, Ring, Use};
use crate::engine::interface::Engine as _;
use crate::engine::job::{Job, Steps as _};
use crate::engine::queue::Queue;
use crate::engine::settings::{Refusal, UringSettings};

#[derive(Debug)]
pub(super) struct Inbox {
    state: Mutex<State>,
    /// The thread reads this event descriptor in its ring.
    event: File,
}

#[derive(Debug)]
struct State {
    queue: Queue<Job>,
    turn: Turn,
}

/// State of the thread with respect to its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Turn {
    phase: Phase,
    /// Set while the thread checks the queue again only if the event or a completion wakes it.
    is_parked: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Phase {
    #[default]
    Running,
    /// The thread completes its jobs and ends.
    Closing,
    /// The kernel rejects calls on the ring. The workers get all jobs that are not in the kernel.
    Unusable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
enum Signal {
    Wake,
    None,
}

impl Turn {
    fn pushed(&mut self, nr_ready: usize) -> Signal {
        if nr_ready == 0 || !self.is_parked {
            return Signal::None;
        }
        self.is_parked = false;
        Signal::Wake
    }

    /// Wakes even a thread that is not parked, so that its read of the event completes.
    fn close(&mut self) -> Signal {
        if self.phase == Phase::Running {
            self.phase = Phase::Closing;
        }
        Signal::Wake
    }
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes `jobs` to the thread. Returns them if the thread has no usable ring.
    pub(super) fn push(&self, jobs: impl IntoIterator<Item = Job>) -> Vec<Job> {
        let mut back = Vec::new();
        self.change(|state| {
            if state.turn.phase == Phase::Unusable {
                back.extend(jobs);
            } else {
                jobs.into_iter()
                    .for_each(|job| state.queue.push(job.key(), job));
            }
            state.turn.pushed(state.queue.nr_ready())
        });
        back
    }

    fn close(&self) {
        self.change(|state| state.turn.close());
    }

    fn change(&self, change: impl FnOnce(&mut State) -> Signal) {
        let signal = change(&mut self.lock());
        if signal == Signal::Wake {
            // Blocks only if the counter is near 2^64.
            let _ = (&self.event).write_all(&1_u64.to_ne_bytes());
        }
    }
}

/// Minimum timeout for the thread's end if the engine has no requests.
const MIN_JOIN: Duration = Duration::from_secs(1);

fn tid() -> libc::pid_t {
    // SAFETY: the call accesses no memory and does not fail.
    unsafe { libc::gettid() }
}

/// Handle of the thread. Its owner must call [`end`](Self::end), except in a child of `fork`.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) inbox: Arc<Inbox>,
    thread: thread::JoinHandle<()>,
    tid: libc::pid_t,
    /// Disconnected once the thread has dropped its ring.
    is_over: Mutex<mpsc::Receiver<()>>,
}

impl Handle {
    /// Closes the inbox and joins the thread, which first completes its jobs. Returns `false` if
    /// the thread has not ended after `timeout`, raised to at least [`MIN_JOIN`] if it has no
    /// requests. Returns `true` without a join if the thread itself makes this call.
    pub(super) fn end(self, timeout: Duration) -> bool {
        self.inbox.close();
        // `thread::current` is unavailable while an exiting thread drops its thread-locals.
        if self.tid == tid() {
            return true;
        }
        let is_at_rest = self.inbox.lock().queue.is_at_rest();
        let timeout = if is_at_rest {
            timeout.max(MIN_JOIN)
        } else {
            timeout
        };
        let is_over = self.is_over.into_inner();
        let is_over = is_over.unwrap_or_else(PoisonError::into_inner);
        if let Err(mpsc::RecvTimeoutError::Timeout) = is_over.recv_timeout(timeout) {
            return false;
        }
        // An error means that the thread panicked, which the panic hook has reported.
        let _ = self.thread.join();
        true
    }
}

/// Starts the thread. Returns once it has created and tested its ring, or has failed to.
pub(super) fn start(settings: UringSettings, pool: &Arc<Pool>) -> Result<Handle, Refusal> {
    let event = event().map_err(|error| Refusal::Refused(errno(&error)))?;
    let inbox = Arc::new(Inbox {
        state: Mutex::new(State {
            queue: Queue::new(settings.per_storage),
            turn: Turn::default(),
        }),
        event,
    });
    let (pool, for_thread) = (Arc::clone(pool), Arc::clone(&inbox));
    let (answer, is_there) = mpsc::channel();
    let (over, is_over) = mpsc::channel::<()>();
    let work = move || {
        // Dropped after the ring.
        let _over = over;
        ledger::acquired(Resource::CompletionThread, 1);
        // Only the thread that creates this ring may enter it.
        match Ring::new(settings.depth, Use::OneThread) {
            Ok(ring) => {
                let _ = answer.send(Ok(tid()));
                let thread = Thread {
                    ring,
                    inbox: for_thread,
                    pool,
                    woken: Box::new(0),
                    is_listening: false,
                };
                thread.run();
            }
            Err(refusal) => {
                let _ = answer.send(Err(refusal));
            }
        }
    };
    let thread = spawn("pagewell-uring", work).map_err(|error| Refusal::NoThread(errno(&error)))?;
    match is_there.recv() {
        Ok(answer) => answer.map(|tid| Handle {
            inbox,
            thread,
            tid,
            is_over: Mutex::new(is_over),
        }),
        Err(_) => Err(Refusal::NoThread(0)),
    }
}

fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EINVAL)
}

fn event() -> io::Result<File> {
    // SAFETY: the call accesses no memory.
    match unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the descriptor was just opened, and has no other owner.
        descriptor => Ok(unsafe { File::from_raw_fd(descriptor) }),
    }
}

struct Thread {
    ring: Ring,
    inbox: Arc<Inbox>,
    pool: Arc<Pool>,
    /// Memory into which the event is read; leaked if the read is still in flight at the end.
    woken: Box<u64>,
    is_listening: bool,
}

impl Thread {
    fn run(mut self) {
        let mut outcomes = Vec::new();
        let mut jobs = Vec::new();
        loop {
            self.listen();
            let is_over = self.take(&mut jobs);
            outcomes.extend(jobs.drain(..).filter_map(|job| self.ring.begin(job)));
            let is_idle = self.ring.nr_in_flight() == 0 && outcomes.is_empty();
            if is_over && is_idle && !self.is_listening {
                return;
            }
            // With outcomes to settle, only poll: other threads may wait for them.
            let nr = usize::from(outcomes.is_empty());
            if self.ring.enter(nr).is_err() {
                self.ring.give_up(|outcome| outcomes.push(outcome));
                self.settle(&mut outcomes);
                return self.finish();
            }
            self.reap(&mut outcomes);
            self.settle(&mut outcomes);
        }
    }

    fn reap(&mut self, outcomes: &mut Vec<Outcome>) {
        let is_listening = &mut self.is_listening;
        self.ring.reap(|outcome| match outcome {
            Outcome::Other => *is_listening = false,
            outcome => outcomes.push(outcome),
        });
    }

    /// Runs without submission until no jobs are left, after the kernel has rejected a call. The
    /// workers perform queued and later jobs. The kernel completes its jobs because this thread
    /// makes other system calls ([`Use::OneThread`]).
    fn finish(mut self) {
        self.inbox.lock().turn.phase = Phase::Unusable;
        let mut outcomes = Vec::new();
        let mut jobs = Vec::new();
        loop {
            self.take(&mut jobs);
            outcomes.extend(jobs.drain(..).map(Outcome::Calls));
            self.reap(&mut outcomes);
            let is_at_rest = outcomes.is_empty() && self.ring.nr_in_flight() == 0;
            self.settle(&mut outcomes);
            if is_at_rest && self.inbox.lock().queue.is_at_rest() {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Takes jobs that may be started, as far as the ring has room, and parks. Returns `true` if
    /// the engine was dropped and no job is left.
    fn take(&mut self, jobs: &mut Vec<Job>) -> bool {
        let room = self.ring.room();
        let mut state = self.inbox.lock();
        while jobs.len() < room
            && let Some((_, job)) = state.queue.pop()
        {
            jobs.push(job);
        }
        // If the ring has no room, the thread checks the queue again after the next completion.
        state.turn.is_parked = true;
        state.turn.phase == Phase::Closing && state.queue.is_at_rest()
    }

    fn settle(&self, outcomes: &mut Vec<Outcome>) {
        if outcomes.is_empty() {
            return;
        }
        {
            let mut state = self.inbox.lock();
            // The thread checks the queue before it waits again, so pushes need no wake-up.
            state.turn.is_parked = false;
            for outcome in outcomes.iter() {
                if let Outcome::Done(job, _) | Outcome::Calls(job) = outcome {
                    state.queue.done(job.key());
                }
            }
        }
        let mut others = Vec::new();
        keep_wakers(|| {
            for outcome in outcomes.drain(..) {
                match outcome {
                    Outcome::Done(job, result) if job.request().is_prompt() => job.complete(result),
                    outcome => others.push(outcome),
                }
            }
        });
        for outcome in others {
            match outcome {
                // A completion that is code of the program, or the drop of its backend, may block.
                Outcome::Done(job, result) => self.pool.complete(job, result),
                Outcome::Calls(job) => self.pool.workers.submit(job),
                Outcome::Other => {}
            }
        }
    }

    /// Pushes a read of the event, unless one is in flight or the engine was dropped.
    fn listen(&mut self) {
        if self.is_listening || self.inbox.lock().turn.phase != Phase::Running {
            return;
        }
        let descriptor = types::Fd(self.inbox.event.as_raw_fd());
        let to = std::ptr::from_mut(&mut *self.woken).cast();
        let entry = opcode::Read::new(descriptor, to, 8).build();
        // SAFETY: the memory is on the heap, and stays valid until the read is done (see `drop`).
        // The event is open while this thread has the inbox. The ring reserves an entry for it.
        unsafe { self.ring.push_other(entry) };
        self.is_listening = true;
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if self.is_listening {
            // The kernel may still write to `woken`.
            Box::leak(std::mem::take(&mut self.woken));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    enum At {
        Listen,
        Take,
        /// Has taken jobs. `true` if no further jobs can come.
        Begin(bool),
        Enter,
        Ended,
    }

    /// Model of the thread, its ring, its queue, and a program that submits and drops the engine.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    struct World {
        turn: Turn,
        at: At,
        nr_queued: usize,
        nr_in_flight: usize,
        nr_completed: usize,
        is_listening: bool,
        event: bool,
        /// The read of the event is done and not reaped.
        is_woken: bool,
        nr_to_push: usize,
        is_open: bool,
    }

    impl World {
        fn signal(&mut self, signal: Signal) {
            self.event |= signal == Signal::Wake;
        }

        fn next(self) -> Vec<Self> {
            let mut all = Vec::new();
            let mut add = |change: fn(&mut Self)| {
                let mut next = self;
                change(&mut next);
                all.push(next);
            };
            if self.nr_to_push != 0 {
                add(|world| {
                    world.nr_to_push -= 1;
                    world.nr_queued += 1;
                    let signal = world.turn.pushed(world.nr_queued);
                    world.signal(signal);
                });
            } else if self.is_open {
                add(|world| {
                    world.is_open = false;
                    let signal = world.turn.close();
                    world.signal(signal);
                });
            }
            // Steps of the kernel.
            if self.nr_in_flight != 0 {
                add(|world| {
                    world.nr_in_flight -= 1;
                    world.nr_completed += 1;
                });
            }
            if self.is_listening && self.event && !self.is_woken {
                add(|world| (world.event, world.is_woken) = (false, true));
            }
            // Steps of the thread, as in `Thread::run`.
            match self.at {
                At::Listen => add(|world| {
                    world.is_listening |= world.turn.phase == Phase::Running;
                    world.at = At::Take;
                }),
                At::Take => add(|world| {
                    world.nr_in_flight += std::mem::take(&mut world.nr_queued);
                    world.turn.is_parked = true;
                    world.at = At::Begin(world.turn.phase == Phase::Closing);
                }),
                At::Begin(is_over) => {
                    let is_idle = self.nr_in_flight == 0 && self.nr_completed == 0;
                    if is_over && is_idle && !self.is_listening {
                        add(|world| world.at = At::Ended);
                    } else {
                        add(|world| world.at = At::Enter);
                    }
                }
                At::Enter if self.is_woken || self.nr_completed != 0 => add(|world| {
                    if std::mem::take(&mut world.is_woken) {
                        world.is_listening = false;
                    }
                    if std::mem::take(&mut world.nr_completed) != 0 {
                        world.turn.is_parked = false;
                    }
                    world.at = At::Listen;
                }),
                At::Enter | At::Ended => {}
            }
            all
        }
    }

    /// Fails if `close` does not wake a thread that is not parked: the read then never completes.
    #[test]
    fn in_every_order_of_pushes_completions_and_the_close_the_thread_ends() {
        let begin = World {
            turn: Turn::default(),
            at: At::Listen,
            nr_queued: 0,
            nr_in_flight: 0,
            nr_completed: 0,
            is_listening: false,
            event: false,
            is_woken: false,
            nr_to_push: 3,
            is_open: true,
        };
        let (mut seen, mut rest) = (HashSet::from([begin]), vec![begin]);
        let mut nr_ended = 0;
        while let Some(world) = rest.pop() {
            let next = world.next();
            if next.is_empty() {
                assert_eq!(world.at, At::Ended, "it waits for ever: {world:?}");
                assert_eq!(world.nr_queued + world.nr_in_flight, 0, "{world:?}");
                nr_ended += 1;
            }
            rest.extend(next.into_iter().filter(|next| seen.insert(*next)));
        }
        assert!(nr_ended != 0 && seen.len() > 100);
    }
}
