//! Requests for a file against the flushers that attend to it; stops of the requests; waits for
//! changes.

use std::sync::Arc;
use std::time::Duration;

use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;

use pagewell_sync::{Mutex, lock};

use super::{explore, spawn};
use crate::dirty::calls::{Attendance, Call, Calls};
use crate::dirty::pressure::Changed;

/// Time limit of a wait, which is never over in a model.
const LIMIT: Duration = Duration::from_secs(1);

#[derive(Default)]
struct File {
    attendance: Attendance,
    nr_queued: AtomicUsize,
    /// Flags that the callers set before their requests, which an attempt must see.
    done: [AtomicBool; 2],
    is_attended: AtomicBool,
    seen: [AtomicBool; 2],
}

impl File {
    fn call(&self, caller: usize) {
        // ORDERING: Relaxed; the request must publish the store.
        self.done[caller].store(true, Ordering::Relaxed);
        if self.attendance.call() {
            self.queue();
        }
    }

    /// Orders the taker of a request after the caller that queued it, and no other.
    fn queue(&self) {
        self.nr_queued.fetch_add(1, Ordering::AcqRel);
    }

    fn serve(&self) -> bool {
        let take = |nr: usize| nr.checked_sub(1);
        let (order, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
        if self.nr_queued.fetch_update(order, relaxed, take).is_err() {
            return false;
        }
        if self.attendance.attend() {
            let was_attended = self.is_attended.swap(true, Ordering::Relaxed);
            assert!(!was_attended, "two flushers are at one file");
            for (done, seen) in self.done.iter().zip(&self.seen) {
                if done.load(Ordering::Relaxed) {
                    seen.store(true, Ordering::Relaxed);
                }
            }
            self.is_attended.store(false, Ordering::Relaxed);
            if self.attendance.leave() {
                self.queue();
            }
        }
        true
    }
}

/// At most one flusher works on the file, and an attempt sees each caller's earlier store.
#[test]
fn loom_call_vs_attend() {
    explore(3, || {
        let file = Arc::new(File::default());
        let caller = spawn(&file, move |file| file.call(1));
        let flusher = spawn(&file, move |file| file.serve());
        file.call(0);
        while file.serve() {}
        caller.join().unwrap();
        let _ = flusher.join().unwrap();
        while file.serve() {}
        for seen in &file.seen {
            assert!(seen.load(Ordering::Relaxed), "a call was lost");
        }
    });
}

/// While the requests are stopped, no thread is at work. Afterwards the request is taken.
#[test]
fn loom_stop_vs_take() {
    explore(3, || {
        let (calls, is_at_work) = (Arc::new(Calls::default()), Arc::new(AtomicBool::new(false)));
        assert!(calls.add_thread(1));
        calls.call(Call::Clean(1));
        let flusher = {
            let (calls, is_at_work) = (Arc::clone(&calls), Arc::clone(&is_at_work));
            thread::spawn(move || {
                assert_eq!(calls.take(LIMIT), Some(Call::Clean(1)));
                // ORDERING: Relaxed; the lock of the requests orders the stores.
                is_at_work.store(true, Ordering::Relaxed);
                is_at_work.store(false, Ordering::Relaxed);
                calls.done();
            })
        };
        let stopped = calls.stop();
        assert!(
            !is_at_work.load(Ordering::Relaxed),
            "a stopped thread works"
        );
        drop(stopped);
        flusher.join().unwrap();
    });
}

/// A thread that waits for a change under a lock does not miss it. A missed notification is a
/// deadlock, since the timeout does not expire in a model.
#[test]
fn loom_tell_vs_wait() {
    explore(3, || {
        let both = Arc::new((Changed::default(), Mutex::new(false)));
        let teller = spawn(&both, move |both| {
            *lock(&both.1) = true;
            both.0.tell();
        });
        let waiter = both.0.waiter();
        waiter.wait(|| (!*lock(&both.1)).then_some(LIMIT));
        drop(waiter);
        teller.join().unwrap();
    });
}
