//! Many futures in one thread: each reads a page, and then the next.
//!
//! The executor is as small as one can be: a list of the tasks that were woken, and a thread that sleeps when it is empty.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use super::file::{ColdFile, PAGE};
use super::reads::{Pages, Random, check};
use crate::failure::chain;

/// The numbers of tasks that were woken, and who polls them.
struct Woken {
    tasks: Mutex<Vec<usize>>,
    thread: Thread,
}

impl Woken {
    fn add(&self, task: usize) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let was_empty = tasks.is_empty();
        tasks.push(task);
        drop(tasks);
        if was_empty {
            self.thread.unpark();
        }
    }

    /// Takes all, in exchange for an empty list.
    fn take(&self, taken: &mut Vec<usize>) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *tasks, taken);
    }
}

/// Wakes one task.
struct WakeTask {
    woken: Arc<Woken>,
    task: usize,
}

impl Wake for WakeTask {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.add(self.task);
    }
}

/// So many tasks at a time.
pub(super) struct Async {
    depth: usize,
}

impl Async {
    pub(super) fn new(depth: usize) -> Async {
        Async { depth }
    }
}

impl Random for Async {
    fn run(&mut self, file: &ColdFile, pages: &Pages<'_>) -> Result<usize, String> {
        let woken = Arc::new(Woken {
            tasks: Mutex::new(Vec::with_capacity(self.depth)),
            thread: thread::current(),
        });
        let waker = |task| {
            let woken = Arc::clone(&woken);
            Waker::from(Arc::new(WakeTask { woken, task }))
        };
        let mut nr_done = 0;
        let begin = |buf| {
            let pos = pages.next()?;
            Some((pos, file.cached.read_at_async(buf, pos)))
        };
        let mut tasks: Vec<_> = (0..self.depth)
            .map(|task| (waker(task), begin(vec![0; PAGE])))
            .collect();
        let mut nr_left = tasks.iter().filter(|(_, read)| read.is_some()).count();
        let mut now: Vec<usize> = (0..self.depth).collect();
        while nr_left != 0 {
            for task in now.drain(..) {
                let (waker, read) = &mut tasks[task];
                // Until it waits, or there is nothing left.
                while let Some((pos, future)) = read {
                    let mut context = Context::from_waker(waker);
                    let Poll::Ready((buf, result)) = Pin::new(future).poll(&mut context) else {
                        break;
                    };
                    let nr = result.map_err(|error| chain(&error))?;
                    check(file, &buf[..nr], *pos)?;
                    nr_done += 1;
                    *read = begin(buf);
                    nr_left -= usize::from(read.is_none());
                }
            }
            woken.take(&mut now);
            if now.is_empty() && nr_left != 0 {
                thread::park();
            }
        }
        Ok(nr_done)
    }
}
