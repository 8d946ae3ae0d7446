//! Many requests, threads, signals; the ring at rest.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use pagewell_io::engine::{Engine, Job};
use pagewell_io::{Backend, Direct};
use pagewell_testkit::wait::{bounded, not_yet, until};

use crate::backends::file;
use crate::results::{Results, WAYS, perform};
use crate::support::{Memory, content, engines, rings};

#[test]
fn thousands_complete_once_each_also_when_the_engine_is_dropped_at_once() {
    let dir = pagewell_testkit::scratch::dir();
    let bytes = content(1 << 20);
    for direct in [Direct::Never, Direct::Auto] {
        let storage: Arc<dyn Backend> = Arc::new(file(&bytes, direct, dir.path()));
        for (name, engine) in engines() {
            let results = Results::of(5000);
            let memories: Vec<_> = (0..5000).map(|_| Memory::new(4096)).collect();
            for (nr, memory) in memories.iter().enumerate() {
                let pos = (nr % 256) as u64 * 4096;
                let request = memory.read(pos, &[4096], results.note(nr));
                engine.submit(Job::new(Arc::clone(&storage), request));
            }
            drop(engine);
            for (nr, result) in results.all().into_iter().enumerate() {
                assert_eq!(result.unwrap(), 4096, "{name}");
                let start = nr % 256 * 4096;
                assert!(memories[nr].bytes() == bytes[start..][..4096], "{name}");
            }
        }
    }
}

#[test]
fn several_threads_use_one_engine_in_every_way() {
    let dir = pagewell_testkit::scratch::dir();
    let bytes = content(1 << 20);
    let storage: Arc<dyn Backend> = Arc::new(file(&bytes, Direct::Auto, dir.path()));
    for (name, engine) in engines() {
        thread::scope(|scope| {
            for thread in 0..6_usize {
                let (engine, storage, bytes) = (&engine, &storage, &bytes);
                scope.spawn(move || {
                    for round in 0..20_usize {
                        let results = Results::of(33);
                        let memories: Vec<_> = (0..33).map(|_| Memory::new(4096)).collect();
                        let page = |nr: usize| (nr * 7 + round * 31 + thread) % 256 * 4096;
                        let jobs = memories.iter().enumerate().map(|(nr, memory)| {
                            let request = memory.read(page(nr) as u64, &[4096], results.note(nr));
                            Job::new(Arc::clone(storage), request)
                        });
                        let way = WAYS[(thread + round) % 4];
                        for (nr, result) in perform(&**engine, way, jobs.collect(), &results)
                            .into_iter()
                            .enumerate()
                        {
                            assert_eq!(result.unwrap(), 4096, "{name}");
                            assert!(memories[nr].bytes() == bytes[page(nr)..][..4096], "{name}");
                        }
                    }
                });
            }
        });
    }
}

#[test]
fn completions_may_give_more_requests_in_a_chain_of_any_length() {
    struct Chain {
        engine: Arc<dyn Engine>,
        storage: Arc<dyn Backend>,
        left: AtomicUsize,
    }
    fn next(chain: &Arc<Chain>) {
        if chain.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            return;
        }
        let memory = Memory::new(64);
        let again = Arc::clone(chain);
        let request = memory.read(0, &[64], move |result| {
            assert_eq!(result.unwrap(), 64);
            next(&again);
        });
        chain
            .engine
            .submit(Job::new(Arc::clone(&chain.storage), request));
    }
    let dir = pagewell_testkit::scratch::dir();
    let storage: Arc<dyn Backend> = Arc::new(file(&content(64), Direct::Never, dir.path()));
    for (name, engine) in engines() {
        let chain = Arc::new(Chain {
            engine,
            storage: Arc::clone(&storage),
            left: AtomicUsize::new(8_000),
        });
        next(&chain);
        until(name, || chain.left.load(Ordering::Relaxed) == 0);
    }
}

#[test]
fn signals_interrupt_nothing_for_good() {
    extern "C" fn nothing(_: libc::c_int) {}
    let dir = pagewell_testkit::scratch::dir();
    let storage: Arc<dyn Backend> = Arc::new(file(&content(1 << 20), Direct::Auto, dir.path()));
    // SAFETY: zeros are a valid value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = nothing as *const () as usize;
    // SAFETY: a handler that does nothing, and does not have calls repeated.
    let set = unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()) };
    assert_eq!(set, 0);
    for (name, engine) in engines() {
        let is_over = Arc::new(AtomicUsize::new(0));
        let over = Arc::clone(&is_over);
        // SAFETY: no arguments.
        let this = unsafe { libc::pthread_self() };
        let bomber = thread::spawn(move || {
            while over.load(Ordering::Relaxed) == 0 {
                // SAFETY: the thread lives until this one has ended.
                let _ = unsafe { libc::pthread_kill(this, libc::SIGUSR1) };
                thread::yield_now();
            }
        });
        for round in 0..60 {
            let results = Results::of(32);
            let jobs = (0..32).map(|nr| {
                let pos = (nr * 8 + round) as u64 % 256 * 4096;
                let request = Memory::new(4096).read(pos, &[4096], results.note(nr));
                Job::new(Arc::clone(&storage), request)
            });
            let done = perform(&*engine, WAYS[round % 4], jobs.collect(), &results);
            assert!(
                done.into_iter().all(|result| result.unwrap() == 4096),
                "{name}"
            );
        }
        is_over.store(1, Ordering::Relaxed);
        bounded("the end of the signals", move || bomber.join().unwrap());
    }
}

/// How often each thread of this process whose name is `name` has gone to sleep.
fn nr_sleeps(name: &str) -> Vec<(std::ffi::OsString, String)> {
    let mut all = Vec::new();
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let read = |file| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        if read("comm").trim_end() == name {
            let status = read("status");
            let switches = status.lines().filter(|line| line.contains("ctxt_switches"));
            all.push((task.file_name(), switches.collect::<Vec<_>>().join(", ")));
        }
    }
    all.sort();
    all
}

/// An idle ring that spins keeps a core busy; it was seen in others.
#[test]
#[ignore = "counts context switches, which a busy machine adds to; .ci/nightly"]
fn an_idle_ring_does_nothing() {
    // Other tests have threads of the same name.
    if !pagewell_testkit::alone("concurrency::an_idle_ring_does_nothing") {
        return;
    }
    let dir = pagewell_testkit::scratch::dir();
    let storage: Arc<dyn Backend> = Arc::new(file(&content(4096), Direct::Auto, dir.path()));
    for (name, engine) in rings() {
        let results = Results::of(64);
        for nr in 0..64 {
            let request = Memory::new(4096).read(0, &[4096], results.note(nr));
            engine.submit(Job::new(Arc::clone(&storage), request));
        }
        assert_eq!(results.all().len(), 64);
        // It may still be on its way to sleep.
        let mut before = nr_sleeps("pagewell-uring");
        until("the thread sleeps", || {
            thread::sleep(std::time::Duration::from_millis(20));
            let now = nr_sleeps("pagewell-uring");
            std::mem::replace(&mut before, now.clone()) == now
        });
        not_yet(name, || nr_sleeps("pagewell-uring") != before);
    }
}
