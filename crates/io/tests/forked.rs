//! A child of `fork` does not touch its parent's engine, and the parent does not notice.

#![cfg(not(loom))]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use pagewell_io::engine::Job;
use pagewell_io::{Backend, Direct, FileBackend, FileOptions, Forked};
use pagewell_testkit::in_child;

use support::{Memory, content, engines, write};

mod support;

#[test]
fn a_child_gets_errors_and_its_parent_all_of_its_reads() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let options = FileOptions::new().create().direct(Direct::Auto);
    let file = FileBackend::open_writable(&path, &options).unwrap();
    let bytes = content(1 << 20);
    write(&file, 0, &bytes).unwrap();
    let file: Arc<dyn Backend> = Arc::new(file);
    for (name, engine) in engines() {
        // The ring of a lane is kept, and the child finds it.
        let job = |memory: &Arc<Memory>, nr: usize, done: mpsc::Sender<_>| {
            let request = memory.read(nr as u64 % 256 * 4096, &[4096], move |result| {
                let _ = done.send((nr, result));
            });
            Job::new(Arc::clone(&file), request)
        };
        let memories: Vec<_> = (0..2000).map(|_| Memory::new(4096)).collect();
        let (done, is_done) = mpsc::channel();
        engine.run(
            &mut (0..50)
                .map(|nr| job(&memories[nr], nr, done.clone()))
                .collect(),
        );
        // Many are under way when the process forks.
        for (nr, memory) in memories.iter().enumerate().skip(50) {
            engine.submit(job(memory, nr, done.clone()));
        }
        let code = in_child(|| {
            let nr_forked = Arc::new(AtomicUsize::new(0));
            let ask = |nr: usize| {
                let nr_forked = Arc::clone(&nr_forked);
                let request = Memory::new(4096).read(nr as u64 * 4096, &[4096], move |result| {
                    let error = result.unwrap_err();
                    assert!(error.get_ref().unwrap().is::<Forked>());
                    nr_forked.fetch_add(1, Ordering::Relaxed);
                });
                Job::new(Arc::clone(&file), request)
            };
            engine.submit(ask(0));
            engine.submit_all(&mut vec![ask(1), ask(2)]);
            engine.run(&mut vec![ask(3)]);
            engine.run(&mut vec![ask(4), ask(5)]);
            let mut lane = engine.lane();
            lane.submit(ask(6));
            assert_eq!(lane.wait(1), 1);
            lane.submit(ask(7));
            drop(lane);
            assert_eq!(nr_forked.load(Ordering::Relaxed), 8);
            // An engine of its own works, on a file of its own.
            for (_, engine) in engines() {
                let own: Arc<dyn Backend> = Arc::new(FileBackend::open(&path).unwrap());
                let memory = Memory::new(4096);
                let (done, is_done) = mpsc::channel();
                let request = memory.read(4096, &[4096], move |result| done.send(result).unwrap());
                engine.submit(Job::new(own, request));
                let limit = pagewell_testkit::wait::limit();
                assert_eq!(is_done.recv_timeout(limit).unwrap().unwrap(), 4096);
                assert!(memory.bytes() == bytes[4096..8192]);
            }
            7
        });
        assert_eq!(code, 7, "{name}");
        drop(done);
        drop(engine);
        for _ in 0..2000 {
            let limit = pagewell_testkit::wait::limit();
            let (nr, result) = is_done.recv_timeout(limit).unwrap();
            assert_eq!(result.unwrap(), 4096, "{name}");
            let start = nr % 256 * 4096;
            assert!(memories[nr].bytes() == bytes[start..][..4096], "{name}");
        }
    }
}

#[test]
fn an_engine_that_is_dropped_in_a_child_is_left_as_it_is() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    std::fs::write(&path, content(8192)).unwrap();
    let file: Arc<dyn Backend> =
        Arc::new(FileBackend::open_for_reading(&path, Direct::Auto).unwrap());
    for (name, engine) in engines() {
        let read = |nr: usize| {
            let (done, is_done) = mpsc::channel();
            let memory = Memory::new(4096);
            let request = memory.read(nr as u64 * 4096, &[4096], move |result| {
                done.send(result).unwrap()
            });
            (Job::new(Arc::clone(&file), request), is_done)
        };
        let (first, second) = (read(0), read(1));
        engine.run(&mut vec![first.0, second.0]);
        let code = in_child({
            let engine = engine.clone();
            move || {
                // This handle and the one of the test: no destructor of the parent runs here.
                let raw = Arc::into_raw(engine);
                for _ in 0..2 {
                    // SAFETY: both handles are copies of the parent's memory; neither is used again in this process.
                    drop(unsafe { Arc::from_raw(raw) });
                }
                3
            }
        });
        assert_eq!(code, 3, "{name}");
        let (job, is_done) = read(1);
        engine.submit(job);
        let limit = pagewell_testkit::wait::limit();
        assert_eq!(
            is_done.recv_timeout(limit).unwrap().unwrap(),
            4096,
            "{name}"
        );
    }
}

#[test]
fn a_lane_with_requests_is_left_to_the_parent() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    std::fs::write(&path, content(1 << 20)).unwrap();
    let file: Arc<dyn Backend> =
        Arc::new(FileBackend::open_for_reading(&path, Direct::Auto).unwrap());
    for (name, engine) in engines() {
        for begins in [false, true] {
            let nr_done = Arc::new(AtomicUsize::new(0));
            let mut lane = engine.lane();
            for nr in 0..40 {
                // Large ones: some of them are under way when the process forks.
                let (nr_done, memory) = (Arc::clone(&nr_done), Memory::new(1 << 20));
                let request = memory.read(nr % 2 * 4096, &[1 << 20], move |result| {
                    // In the child those that were not begun fail.
                    nr_done.fetch_add(usize::from(result.is_ok()), Ordering::Relaxed);
                });
                lane.submit(Job::new(Arc::clone(&file), request));
            }
            let mut nr_before = if begins { lane.wait(0) } else { 0 };
            let code = in_child(|| {
                let nr_before = nr_done.load(Ordering::Relaxed);
                lane.wait(1);
                assert_eq!((lane.nr_in_flight(), lane.wait(40)), (0, 0));
                assert_eq!(nr_done.load(Ordering::Relaxed), nr_before);
                5
            });
            assert_eq!(code, 5, "{name}");
            nr_before += lane.wait(40);
            assert_eq!((nr_before, lane.nr_in_flight()), (40, 0), "{name}");
            assert_eq!(nr_done.load(Ordering::Relaxed), 40, "{name}");
        }
    }
}
