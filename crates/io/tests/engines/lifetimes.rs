//! What is dropped, by which thread, and when: engines, backends, contexts, futures.

use std::io;
use std::panic::catch_unwind;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use pagewell_io::engine::Job;
use pagewell_io::{Backend, Direct, MemoryBackend};
use pagewell_io_testing::{Fault, FaultBackend};
use pagewell_testkit::wait::{Gate, OpenAtEnd, bounded, until};

use crate::backends::{file, storages};
use crate::results::{Results, WAYS, perform};
use crate::support::{Memory, content, engines, rings};

#[test]
fn drop_leaves_a_ring_thread_that_is_blocked() {
    bounded("the drop of an engine", || {
        let dir = pagewell_testkit::scratch::dir();
        let storage: Arc<dyn Backend> = Arc::new(file(&content(4096), Direct::Auto, dir.path()));
        for (name, engine) in rings() {
            let gate = Arc::new(Gate::new());
            let open = OpenAtEnd(&gate);
            let results = Results::of(1);
            let (held, note) = (Arc::clone(&gate), results.note(0));
            let request = Memory::new(4096).read_promptly(0, &[4096], move |result| {
                held.pass();
                note(result);
            });
            engine.submit(Job::new(Arc::clone(&storage), request));
            gate.wait_for(1);
            drop(engine);
            assert_eq!(results.nr_done(), 0, "{name}");
            drop(open);
            assert_eq!(results.all()[0].as_ref().unwrap(), &4096, "{name}");
        }
    });
}

#[test]
fn ring_thread_may_drop_its_own_engine() {
    bounded("the drop of an engine", || {
        let dir = pagewell_testkit::scratch::dir();
        let storage: Arc<dyn Backend> = Arc::new(file(&content(4096), Direct::Auto, dir.path()));
        for (name, engine) in rings() {
            let gate = Arc::new(Gate::new());
            let open = OpenAtEnd(&gate);
            let results = Results::of(1);
            let (held, note, kept) = (Arc::clone(&gate), results.note(0), Arc::clone(&engine));
            let request = Memory::new(4096).read_promptly(0, &[4096], move |result| {
                held.pass();
                drop(kept);
                note(result);
            });
            engine.submit(Job::new(Arc::clone(&storage), request));
            gate.wait_for(1);
            drop(engine);
            drop(open);
            assert_eq!(results.all()[0].as_ref().unwrap(), &4096, "{name}");
        }
    });
}

/// Debug builds detect a waker that would be called by the ring's thread, on which all requests
/// depend. In a backend, which may use another cache, this does not count.
#[cfg(debug_assertions)]
#[test]
fn no_waker_is_called_by_the_ring_thread() {
    use pagewell_sync::ledger::{self, Resource};
    use pagewell_sync::parking::call_waker;

    let is_refused = || catch_unwind(|| call_waker(Waker::noop().clone())).is_err();
    assert!(!is_refused());
    let dir = pagewell_testkit::scratch::dir();
    let storage: Arc<dyn Backend> = Arc::new(file(&content(4096), Direct::Auto, dir.path()));
    for (name, engine) in rings() {
        let results = Results::of(1);
        let note = results.note(0);
        let request = Memory::new(4096).read_promptly(0, &[4096], move |result| {
            let is_refused_in_backend = {
                let _in_backend = ledger::enter("a backend", &Resource::ALL);
                is_refused()
            };
            let is_right = is_refused() && !is_refused_in_backend;
            note(result.map(|nr| nr * usize::from(is_right)));
        });
        engine.submit(Job::new(Arc::clone(&storage), request));
        assert_eq!(results.all()[0].as_ref().unwrap(), &4096, "{name}");
    }
}

#[test]
fn the_storage_is_let_go_before_the_completion_is_called() {
    let dir = pagewell_testkit::scratch::dir();
    for (name, engine) in engines() {
        for way in WAYS {
            for (kind, storage) in storages(&content(8192), dir.path()) {
                if kind == "deferred memory" {
                    continue; // It has to keep itself.
                }
                let results = Results::of(1);
                let (weak, note) = (Arc::downgrade(&storage), results.note(0));
                let request = Memory::new(4096).read(0, &[4096], move |result| {
                    assert_eq!(weak.strong_count(), 0);
                    note(result);
                });
                let done = perform(&*engine, way, vec![Job::new(storage, request)], &results);
                assert_eq!(done[0].as_ref().unwrap(), &4096, "{name}, {kind}");
            }
        }
    }
}

/// A read as a future: the completion wakes it, or finds nobody.
struct Reading {
    state: Arc<Mutex<Read>>,
}

#[derive(Default)]
struct Read {
    result: Option<io::Result<usize>>,
    waker: Option<Waker>,
}

impl Future for Reading {
    type Output = io::Result<usize>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.state.lock().unwrap();
        match state.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// Wakes a thread.
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn futures_are_woken_and_one_that_is_dropped_leaves_its_memory_until_the_storage_is_done_with_it() {
    for (name, engine) in engines().into_iter().skip(1) {
        let gate = Arc::new(Gate::new());
        let held = Arc::clone(&gate);
        let slow = FaultBackend::new(MemoryBackend::new(content(64)), move |_, _| {
            held.pass();
            Fault::None
        });
        let storage: Arc<dyn Backend> = Arc::new(slow);
        let read = |memory: &Arc<Memory>| {
            let state = Arc::new(Mutex::new(Read::default()));
            let future = Reading {
                state: Arc::clone(&state),
            };
            let request = memory.read(0, &[64], move |result| {
                let mut state = state.lock().unwrap();
                state.result = Some(result);
                if let Some(waker) = state.waker.take() {
                    waker.wake();
                }
            });
            engine.submit(Job::new(Arc::clone(&storage), request));
            future
        };
        let (kept, dropped) = (Memory::new(64), Memory::new(64));
        let mut future = pin!(read(&kept));
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        assert!(future.as_mut().poll(&mut context).is_pending());
        let other = read(&dropped);
        let memory = Arc::downgrade(&dropped);
        drop((other, dropped));
        // Its owner has lost interest, and the storage may still write there.
        assert_eq!(memory.strong_count(), 1, "{name}");
        gate.open();
        let result = loop {
            match future.as_mut().poll(&mut context) {
                Poll::Ready(result) => break result,
                Poll::Pending => thread::park(),
            }
        };
        assert_eq!(result.unwrap(), 64, "{name}");
        assert_eq!(kept.bytes(), content(64), "{name}");
        until("the memory is free", || memory.strong_count() == 0);
    }
}

#[test]
fn a_lane_that_is_dropped_waits_for_what_it_has() {
    let dir = pagewell_testkit::scratch::dir();
    for (name, engine) in engines() {
        for (kind, storage) in storages(&content(4096 * 64), dir.path()) {
            for nr in [1, 2, 64, 500] {
                let results = Results::of(nr);
                let mut lane = engine.lane();
                for nr in 0..nr {
                    let request =
                        Memory::new(4096).read(nr as u64 % 64 * 4096, &[4096], results.note(nr));
                    lane.submit(Job::new(Arc::clone(&storage), request));
                    if nr % 100 == 50 {
                        lane.wait(0);
                    }
                }
                drop(lane);
                assert_eq!(results.nr_done(), nr, "{name}, {kind}");
            }
        }
    }
}
