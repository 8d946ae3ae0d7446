//! Counts of handles: opens for writing against each other, and against drops of handles.

use std::sync::Arc;

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use super::explore;
use crate::dirty::handles::{Handle, Handles};

#[derive(Default)]
struct File {
    handles: Handles,
    /// Bytes that writers have written, which only the counts publish.
    bytes: [AtomicUsize; 2],
}

impl File {
    fn open(&self, is_exclusive: bool) -> bool {
        let is_admitted = self.handles.admit_writer(is_exclusive);
        if is_admitted {
            let _ = self.handles.add_admitted();
        }
        is_admitted
    }

    fn write(&self, writer: usize) {
        // ORDERING: Relaxed; the counts must publish the store.
        self.bytes[writer].store(1, Ordering::Relaxed);
    }

    fn has_written(&self, writer: usize) -> bool {
        // ORDERING: Relaxed, as in `write`.
        self.bytes[writer].load(Ordering::Relaxed) == 1
    }
}

/// Of an exclusive open and another open, one succeeds.
#[test]
fn loom_exclusive_open_vs_open() {
    explore(3, || {
        let file = Arc::new(File::default());
        let other = {
            let file = Arc::clone(&file);
            thread::spawn(move || file.open(false))
        };
        let is_exclusive = file.open(true);
        assert_ne!(other.join().unwrap(), is_exclusive);
        assert!(file.handles.remove(Handle::Write), "an open is not counted");
        assert!(file.open(!is_exclusive));
    });
}

/// An exclusive open succeeds only after one handle is dropped and another is closed, and sees what
/// both threads have written. A close makes the file durable before it removes the writer.
#[test]
fn loom_exclusive_open_vs_remove() {
    explore(3, || {
        let file = Arc::new(File::default());
        assert!(file.open(false));
        let _ = file.handles.add(Handle::Write);
        let drops = {
            let file = Arc::clone(&file);
            thread::spawn(move || {
                file.write(0);
                let _ = file.handles.remove(Handle::Write);
            })
        };
        let closes = {
            let file = Arc::clone(&file);
            thread::spawn(move || {
                let _ = file.handles.remove_keeping_writer();
                file.write(1);
                file.handles.remove_writer();
            })
        };
        if file.open(true) {
            assert!([0, 1].into_iter().all(|writer| file.has_written(writer)));
        }
        drops.join().unwrap();
        closes.join().unwrap();
    });
}

/// One of two drops removes the last handle, and its thread sees what the other one has written.
#[test]
fn loom_remove_vs_remove() {
    explore(3, || {
        let file = Arc::new(File::default());
        assert!(file.open(false));
        let _ = file.handles.add(Handle::Write);
        let drop_one = |file: &File, writer: usize| {
            file.write(writer);
            let is_last = file.handles.remove(Handle::Write);
            assert!(!is_last || file.has_written(1 - writer));
            is_last
        };
        let other = {
            let file = Arc::clone(&file);
            thread::spawn(move || drop_one(&file, 1))
        };
        let is_last = drop_one(&file, 0);
        assert_ne!(other.join().unwrap(), is_last);
        assert!(file.handles.is_empty());
    });
}
