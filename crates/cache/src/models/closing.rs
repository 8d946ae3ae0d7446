//! Files whose last strong reference is dropped while weak references exist.

use std::sync::Arc;

use loom::thread;
use pagewell_frame::FRAME_BYTES;

use super::{OURS, assert_at_rest, cold, explore, leaf_frame, pool, sync, writable, write};
use crate::dirty::commits::Sync as What;
use crate::files::opened::Opened;
use crate::files::visit::visit;
use crate::mapping::visitor::Visitor;
use crate::supply::evict::Evictor;
use crate::supply::leaves::Leaves;
use crate::supply::policy::clock::Marks;
use crate::writeback::flush::Flusher;

/// The file is closed when the drop of the last strong reference returns.
#[test]
fn loom_close_vs_evict_leaf() {
    explore(3, || {
        let files = pool(4);
        let (mapping, storage) = cold(&files, FRAME_BYTES);
        drop(Leaves(files.supply()).leaf_or_new(mapping.index(), mapping.number(), 0));
        let leaf_frame = leaf_frame(&mapping);
        let evictor = {
            let files = Arc::clone(&files);
            thread::spawn(move || {
                drop(Evictor(files.supply()).try_evict(leaf_frame, Marks::Ignored))
            })
        };
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
        let files = pool(4);
        let (mapping, storage) = writable(&files);
        write(&mapping, 0, OURS ^ 1);
        let number = mapping.number();
        let visitor = {
            let files = Arc::clone(&files);
            thread::spawn(move || {
                if let Some(file) = visit(&files, number) {
                    Flusher(&file)
                        .sync_unless(What::Data, || false)
                        .expect("a healthy storage");
                }
            })
        };
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
        let files = pool(4);
        let (mapping, storage) = cold(&files, FRAME_BYTES);
        let number = mapping.number();
        let id = pagewell_io::Backend::id(&storage);
        let visitor = {
            let files = Arc::clone(&files);
            thread::spawn(move || drop(visit(&files, number)))
        };
        let opener = {
            let files = Arc::clone(&files);
            thread::spawn(move || drop(Opened::of_open(&files, id)))
        };
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
        let files = pool(4);
        let (mapping, storage) = cold(&files, FRAME_BYTES);
        let number = mapping.number();
        let id = pagewell_io::Backend::id(&storage);
        let visit = visit(&files, number).expect("a file that has a share");
        let closer = thread::spawn(move || drop(mapping));
        let opener = {
            let files = Arc::clone(&files);
            thread::spawn(move || drop(Opened::of_open(&files, id)))
        };
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
        let files = pool(4);
        let (mapping, storage) = cold(&files, FRAME_BYTES);
        let visitor = Visitor::of(mapping.mapping()).expect("a file with a strong reference");
        let closer = {
            let storage = Arc::clone(&storage);
            thread::spawn(move || {
                drop(mapping);
                assert_eq!(Arc::strong_count(&storage), 2, "a closed file is open");
            })
        };
        drop(visitor);
        closer.join().unwrap();
        assert_at_rest(&files);
    });
}
