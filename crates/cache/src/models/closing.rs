//! Files whose last strong reference is dropped while weak references exist.

use std::sync::Arc;

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use super::{
    OURS, assert_at_rest, cold, evict, explore, make_leaf, pool, spawn, sync, writable, write,
};
use crate::dirty::commits::Sync as What;
use crate::dirty::handles::{Handle, Handles};
use crate::files::opened::Opened;
use crate::files::state::visit;
use crate::mapping::visitor::Visitor;
use crate::writeback::flush::Flusher;

/// The file is closed when the drop of the last strong reference returns.
#[test]
fn loom_close_vs_evict_leaf() {
    explore(3, || {
        let files = pool::<4>();
        let (mapping, storage) = cold::<1>(&files);
        let leaf_frame = make_leaf(&mapping, 0);
        let evictor = spawn(&files, move |files| drop(evict(files.supply(), leaf_frame)));
        drop(mapping);
        assert_eq!(Arc::strong_count(&storage), 1, "a closed file is open");
        evictor.join().unwrap();
        assert_at_rest(&files);
    });
}

/// All frames are free when the drop of the last strong reference returns.
#[test]
fn loom_close_vs_sync() {
    explore(2, || {
        let files = pool::<4>();
        let (mapping, storage) = writable(&files);
        write(&mapping, 0, OURS ^ 1);
        let number = mapping.number();
        let visitor = spawn(&files, move |files| {
            if let Some(file) = visit(&files, number) {
                Flusher(&file)
                    .sync_unless(What::Data, || false)
                    .expect("a healthy storage");
            }
        });
        sync(&mapping);
        drop(mapping);
        assert_eq!(Arc::strong_count(&storage), 1, "a closed file is open");
        assert_at_rest(&files);
        visitor.join().unwrap();
    });
}

/// A file with a weak reference is closed when both strong references are dropped.
#[test]
fn loom_reopen_vs_close_vs_visit() {
    explore(3, || {
        let files = pool::<4>();
        let (mapping, storage) = cold::<1>(&files);
        let number = mapping.number();
        let id = pagewell_io::Backend::id(&storage);
        let visitor = spawn(&files, move |files| drop(visit(&files, number)));
        let opener = spawn(&files, move |files| drop(Opened::of_open(&files, id)));
        drop(mapping);
        opener.join().unwrap();
        assert_eq!(Arc::strong_count(&storage), 1, "a closed file is open");
        assert_at_rest(&files);
        visitor.join().unwrap();
    });
}

/// As the previous model, but the thread that drops the first strong reference waits for the drop
/// of the weak reference. Opening the file again ends this wait, even concurrently with that drop.
#[test]
fn loom_reopen_vs_who_waits_for_a_visitor() {
    explore(3, || {
        let files = pool::<4>();
        let (mapping, storage) = cold::<1>(&files);
        let number = mapping.number();
        let id = pagewell_io::Backend::id(&storage);
        let visit = visit(&files, number).expect("a file that has a share");
        let closer = thread::spawn(move || drop(mapping));
        let opener = spawn(&files, move |files| drop(Opened::of_open(&files, id)));
        drop(visit);
        closer.join().unwrap();
        opener.join().unwrap();
        assert_eq!(Arc::strong_count(&storage), 1, "a closed file is open");
        assert_at_rest(&files);
    });
}

/// The thread that drops the last strong reference waits for a weak reference that owns the file.
#[test]
fn loom_close_vs_visitor() {
    explore(3, || {
        let files = pool::<4>();
        let (mapping, storage) = cold::<1>(&files);
        let visitor = Visitor::of(mapping.mapping()).expect("a file with a strong reference");
        let closer = spawn(&storage, move |storage| {
            drop(mapping);
            assert_eq!(Arc::strong_count(&storage), 2, "a closed file is open");
        });
        drop(visitor);
        closer.join().unwrap();
        assert_at_rest(&files);
    });
}

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
        let other = spawn(&file, move |file| file.open(false));
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
        let drops = spawn(&file, move |file| {
            file.write(0);
            let _ = file.handles.remove(Handle::Write);
        });
        let closes = spawn(&file, move |file| {
            let _ = file.handles.remove_keeping_writer();
            file.write(1);
            file.handles.remove_writer();
        });
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
        let other = spawn(&file, move |file| drop_one(&file, 1));
        let is_last = drop_one(&file, 0);
        assert_ne!(other.join().unwrap(), is_last);
        assert!(file.handles.is_empty());
    });
}
