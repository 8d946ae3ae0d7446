//! Tests of the waits between threads that open and close files, and of the registry of open files.

use pagewell_frame::{FRAME_BYTES, Nodes};
use pagewell_io::{Backend, FileId, MemoryBackend};
use pagewell_sync::bytes::RacyBytes;
use pagewell_sync::lock;
use pagewell_testkit::wait::{Gate, OpenAtEnd, bounded, not_yet, until};

use super::*;
use crate::api::cache::Cache;
use crate::api::options::OpenOptions;
use crate::dirty::writes::Writeback;
use crate::files::state::visit;

fn cache() -> Cache {
    let builder = Cache::builder().nodes(Nodes::Unbound(1));
    builder.capacity(1 << 20).build().unwrap()
}

#[test]
fn nobody_visits_what_nobody_shares() {
    let users = Users::default();
    assert!(!users.enter());
    assert!(!users.add_share(), "nobody can wait");
    assert!(users.enter());
    assert!(!users.is_visited_only());
    assert!(!users.remove_share_unless_last());
    assert!(users.remove_share());
    assert!(users.is_visited_only());
    assert!(!users.enter(), "a visitor after the last share");
    assert!(users.leave(), "nobody wakes who waits");
    assert!(!users.is_visited_only());
}

#[test]
fn who_waits_is_woken_when_the_file_is_opened_again() {
    let users = Users::default();
    assert!(!users.add_share());
    assert!(users.enter() && users.enter());
    assert!(users.remove_share());
    assert!(users.is_visited_only());
    assert!(users.add_share(), "nobody wakes who waits");
    assert!(!users.is_visited_only());
    assert!(!users.add_share(), "nobody waits any more");
    assert!(!users.leave() && !users.leave(), "nobody is to be woken");
    assert!(users.remove_share_unless_last());
    assert!(users.remove_share());
}

#[derive(Debug)]
struct ClosedLate(Arc<Gate>);

impl ClosedLate {
    const ID: FileId = FileId {
        device: 1,
        inode: 2,
    };
}

impl Backend for ClosedLate {
    fn read_at(&self, _: &[RacyBytes<'_>], _: u64) -> std::io::Result<usize> {
        Ok(0)
    }

    fn size(&self) -> std::io::Result<u64> {
        Ok(0)
    }

    fn id(&self) -> FileId {
        Self::ID
    }
}

impl Drop for ClosedLate {
    fn drop(&mut self) {
        self.0.pass();
    }
}

/// Of two mappings of a file, the first that is closed removes only itself from the registry.
#[test]
fn a_mapping_forgets_itself_and_no_other_one() {
    bounded("files that are closed", || {
        let cache = cache();
        let gates = [(); 2].map(|()| Arc::new(Gate::new()));
        let _open = [OpenAtEnd(&gates[0]), OpenAtEnd(&gates[1])];
        std::thread::scope(|scope| {
            let closers = gates.each_ref().map(|gate| {
                // In the second iteration, the first mapping of the file is being closed.
                let file = cache.open_backend(ClosedLate(Arc::clone(gate)), "late");
                let file = file.unwrap();
                let closer = scope.spawn(move || drop(file));
                gate.wait_for(1);
                closer
            });
            let files = cache.files();
            for (gate, closer) in gates.iter().zip(closers) {
                assert!(files.registry.is_registered(ClosedLate::ID));
                assert!(Opened::of_open(files, ClosedLate::ID).is_none());
                gate.open();
                closer.join().unwrap();
            }
            assert!(!files.registry.is_registered(ClosedLate::ID));
        });
    });
}

/// A thread that opens a file for writing waits only for a thread that is opening the same file.
#[test]
fn a_file_is_opened_by_one_at_a_time() {
    bounded("files that are opened", || {
        let cache = cache();
        let files = cache.files();
        let ids = [1, 2].map(|inode| FileId { device: 1, inode });
        let begin = |id| Opened::begin_to_open(files, id).expect("nobody has it open");
        let first = begin(ids[0]);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| drop(begin(ids[0])));
            drop(begin(ids[1]));
            not_yet("two open one file", || second.is_finished());
            drop(first);
        });
        drop(begin(ids[0]));
    });
}

#[test]
fn a_quiet_cache_has_closed_what_was_left() {
    let cache = cache();
    let storage = Arc::new(MemoryBackend::writable(Vec::new()));
    let options = OpenOptions::new().writeback(Writeback::Manual);
    let file = cache.open_backend_with(Arc::clone(&storage), "left", &options);
    let file = file.unwrap();
    file.append(b"bytes").unwrap();
    // No flusher has started that could close the file first.
    assert!(!*lock(&cache.files().flushers.is_started));
    let share = cache.files().registry.open(storage.id()).unwrap();
    lock(&cache.files().left).push(share);
    drop(file);
    assert_ne!(Arc::strong_count(&storage), 1, "its share keeps it");
    drop(cache.quiesce().unwrap());
    assert_eq!(Arc::strong_count(&storage), 1, "a closed file is open");
}

#[test]
fn who_makes_a_cache_quiet_waits_for_another_who_has() {
    bounded("a quiet cache", || {
        let cache = cache();
        let held = cache.files().flushers.hold();
        std::thread::scope(|scope| {
            let quiet = scope.spawn(|| drop(cache.quiesce().unwrap()));
            not_yet("it is held", || quiet.is_finished());
            drop(held);
            until("it is held no more", || quiet.is_finished());
        });
    });
}

/// The callback of a flusher drops the last handle and strong reference of its own file.
#[test]
fn a_visitor_may_let_the_last_share_go_in_a_hook() {
    bounded("a visit", || {
        let cache = cache();
        let storage = Arc::new(MemoryBackend::writable(vec![0; FRAME_BYTES]));
        let last = Arc::new(std::sync::Mutex::new(None));
        let options = {
            let last = Arc::clone(&last);
            OpenOptions::new().write().before_write(move |_, _| {
                assert_eq!(std::thread::current().name(), Some("pagewell-flusher"));
                drop(last.lock().unwrap().take());
                Ok(())
            })
        };
        let file = cache.open_backend_with(Arc::clone(&storage), "visited", &options);
        let file = file.unwrap();
        let mut slot = last.lock().unwrap();
        file.write_at(&[1], 0).unwrap();
        *slot = Some(file);
        drop(slot);
        until("the file is closed", || Arc::strong_count(&storage) == 1);
        assert!(last.lock().unwrap().is_none());
        storage.modify(|bytes| assert_eq!(bytes[0], 1));
    });
}

#[test]
fn who_drops_the_last_share_waits_for_a_visitor() {
    bounded("a file that is closed", || {
        let cache = cache();
        let storage = Arc::new(MemoryBackend::new(vec![0; FRAME_BYTES]));
        let file = cache.open_backend(Arc::clone(&storage), "visited").unwrap();
        let mapping = Opened::of_open(cache.files(), storage.id()).unwrap();
        let visit = visit(cache.files(), mapping.number()).unwrap();
        drop(mapping);
        std::thread::scope(|scope| {
            let closer = scope.spawn(move || drop(file));
            not_yet("the visitor is there still", || closer.is_finished());
            drop(visit);
            closer.join().unwrap();
        });
        assert_eq!(Arc::strong_count(&storage), 1, "a closed file is open");
    });
}
