//! Requests for a file against the flushers that attend to it.

use std::sync::Arc;

use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;

use super::explore;
use crate::dirty::attendance::Attendance;

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
        let caller = {
            let file = Arc::clone(&file);
            thread::spawn(move || file.call(1))
        };
        let flusher = {
            let file = Arc::clone(&file);
            thread::spawn(move || file.serve())
        };
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
