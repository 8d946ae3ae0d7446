//! The simulator: repeatable, right where faults are harmless, and wrong where it should be. And a program that copes with all of it, which shows what it is for.

#![cfg(not(loom))]

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pagewell_io::engine::{Engine, Job, Request};
use pagewell_io::{Backend, MemoryBackend};
use pagewell_io_testing::sim::{Event, Faults, History, SimEngine, What};
use pagewell_io_testing::{Fault, FaultBackend, Operation, VolatileDevice};
use pagewell_testkit::{Rng, Seed};

use support::{Memory, content, read_all};

#[path = "../../io/tests/support/mod.rs"]
mod support;

/// Random reads and writes of a file of 64 KiB, many under way at a time, none of them at the same place as another. Returns the steps, and what the file has.
fn work(seed: u64, faults: Faults) -> (History, Vec<u8>, Vec<u8>, usize) {
    let engine = SimEngine::new(seed, faults);
    let storage = Arc::new(MemoryBackend::writable(content(1 << 16)));
    let mut model = content(1 << 16);
    let mut rng = Rng::new(seed);
    let nr_failed = Arc::new(AtomicUsize::new(0));
    let nr_wrong = Arc::new(AtomicUsize::new(0));
    for _ in 0..6 {
        let mut lane = engine.lane();
        let mut places: Vec<usize> = (0..16).collect();
        for nr in (1..16).rev() {
            places.swap(nr, rng.index(nr + 1));
        }
        for place in places {
            let pos = place * 4096 + rng.index(2) * 100;
            let len = 1 + rng.index(3900);
            let failed = Arc::clone(&nr_failed);
            let request = if rng.one_in(2) {
                let bytes: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
                model[pos..pos + len].copy_from_slice(&bytes);
                Memory::with_bytes(&bytes).write(
                    pos as u64,
                    &[len / 2, len - len / 2],
                    move |result| {
                        failed.fetch_add(usize::from(result.is_err()), Ordering::Relaxed);
                    },
                )
            } else {
                let memory = Memory::new(len);
                let (wrong, of_it) = (Arc::clone(&nr_wrong), Arc::clone(&memory));
                let expected = model[pos..pos + len].to_vec();
                memory.read(pos as u64, &[len], move |result| match result {
                    Ok(nr) => {
                        let is_wrong = nr != len || of_it.bytes() != expected;
                        wrong.fetch_add(usize::from(is_wrong), Ordering::Relaxed);
                    }
                    Err(_) => drop(failed.fetch_add(1, Ordering::Relaxed)),
                })
            };
            lane.submit(Job::new(storage.clone(), request));
        }
    }
    let history = engine.history();
    assert_eq!(engine.nr_in_flight(), 0);
    let nr_bad = nr_failed.load(Ordering::Relaxed) + nr_wrong.load(Ordering::Relaxed);
    (history, read_all(&*storage), model, nr_bad)
}

#[test]
fn a_seed_decides_everything() {
    let all = Faults {
        failed: 50,
        misdirected: 50,
        ..Faults::harmless()
    };
    for faults in [Faults::default(), Faults::harmless(), all] {
        assert_eq!(work(1, faults), work(1, faults));
        assert_ne!(work(1, faults).0, work(2, faults).0);
    }
}

#[test]
fn harmless_faults_harm_nothing_and_happen() {
    let seed = Seed::of_run();
    let (history, bytes, model, nr_bad) = work(seed.get(), Faults::harmless());
    assert_eq!(nr_bad, 0);
    assert!(bytes == model);
    let has = |is: fn(&What) -> bool| history.iter().any(|event| is(&event.what));
    assert!(has(|what| matches!(what, What::Part(1..))));
    assert!(has(|what| matches!(what, What::Interrupted)));
    assert!(has(|what| matches!(what, What::Delayed(1..))));
    assert_eq!(
        history
            .iter()
            .filter(|event| event.what == What::Done)
            .count(),
        96
    );
    // Not in the order in which they were given.
    let done = history.iter().filter(|event| event.what == What::Done);
    assert!(!done.map(|event| event.request).is_sorted());
}

#[test]
fn harmful_faults_are_seen() {
    let seed = Seed::of_run();
    let with = |faults| work(seed.get(), faults);
    let failing = Faults {
        failed: 200,
        ..Faults::default()
    };
    let (history, _, _, nr_bad) = with(failing);
    let nr_failed = history
        .iter()
        .filter(|event| matches!(event.what, What::Failed(_)))
        .count();
    assert!(nr_failed > 2 && nr_bad >= nr_failed);
    let misdirecting = Faults {
        misdirected: 300,
        ..Faults::default()
    };
    let (history, bytes, model, nr_bad) = with(misdirecting);
    assert!(
        history
            .iter()
            .any(|event| matches!(event.what, What::Misdirected(_)))
    );
    assert!(nr_bad != 0 || bytes != model);
}

#[test]
fn nothing_happens_before_a_step() {
    let engine = SimEngine::new(3, Faults::default());
    let storage = Arc::new(MemoryBackend::writable(Vec::new()));
    let order = Arc::new(Mutex::new(Vec::new()));
    for nr in 0..20_u64 {
        let order = Arc::clone(&order);
        let request = Memory::with_bytes(&[nr as u8]).write(nr, &[1], move |result| {
            order.lock().unwrap().push((nr, result.unwrap()));
        });
        engine.submit(Job::new(storage.clone(), request));
    }
    assert_eq!((engine.nr_in_flight(), storage.size().unwrap()), (20, 0));
    assert!(engine.step());
    assert_eq!(order.lock().unwrap().len(), 1);
    engine.finish();
    assert!(!engine.step());
    let order = order.lock().unwrap();
    assert_eq!(order.len(), 20);
    assert!(!order.is_sorted());
    let done: Vec<_> = engine.history();
    let expected: Vec<_> = order
        .iter()
        .map(|&(request, _)| Event {
            request,
            what: What::Done,
        })
        .collect();
    assert_eq!(done, expected);
}

/// A program that counts in two files: a number is in the second only when it is durable in the first. It has many requests under way, and only believes what completed before a sync
/// that completed.
#[test]
fn what_a_sync_has_covered_survives_a_loss_of_power_and_what_was_under_way_is_torn() {
    let mut nr_torn = 0;
    for seed in 0..60 {
        let device = VolatileDevice::new(seed);
        let file: Arc<dyn Backend> = Arc::new(device.create("file").unwrap());
        device.sync_dir().unwrap();
        let engine = SimEngine::new(seed, Faults::harmless());
        engine.power_off_after(40 + seed * 5);
        let page = |nr: u64| content(4096 + nr as usize)[nr as usize..].to_vec();
        let (mut written, mut durable) = (0, 0);
        let write = |nr: u64| {
            let bytes = page(nr);
            Memory::with_bytes(&bytes).write(nr * 4096, &[4096], |_| ())
        };
        let failures = Arc::new(AtomicUsize::new(0));
        while failures.load(Ordering::Relaxed) == 0 {
            let note = |failures: &Arc<AtomicUsize>| {
                let failures = Arc::clone(failures);
                move |result: io::Result<usize>| {
                    failures.fetch_add(usize::from(result.is_err()), Ordering::Relaxed);
                }
            };
            let batch = (written..written + 8).map(|nr| {
                let bytes = page(nr);
                let request = Memory::with_bytes(&bytes).write(nr * 4096, &[4096], note(&failures));
                Job::new(Arc::clone(&file), request)
            });
            engine.run(&mut batch.collect());
            if failures.load(Ordering::Relaxed) != 0 {
                break;
            }
            written += 8;
            let sync = Request::sync_data(Box::new(note(&failures)));
            // Others are under way meanwhile.
            engine.submit(Job::new(Arc::clone(&file), write(written + 3)));
            engine.run(&mut vec![Job::new(Arc::clone(&file), sync)]);
            if failures.load(Ordering::Relaxed) == 0 {
                durable = written;
            }
        }
        engine.finish();
        nr_torn += engine
            .history()
            .iter()
            .filter(|event| matches!(event.what, What::PowerOff(1..8)))
            .count();
        let after = device.crash(seed).open("file").unwrap();
        for nr in 0..durable {
            let memory = Memory::new(4096);
            assert_eq!(after.read_at(&[memory.racy()], nr * 4096).unwrap(), 4096);
            assert!(
                memory.bytes() == page(nr),
                "page {nr} of {durable}, seed {seed}"
            );
        }
        // Later requests fail, and say why.
        let (done, is_done) = std::sync::mpsc::channel();
        let late = Request::sync_data(Box::new(move |result| done.send(result).unwrap()));
        engine.submit(Job::new(file, late));
        assert!(
            is_done
                .try_recv()
                .unwrap()
                .unwrap_err()
                .to_string()
                .contains("power")
        );
    }
    assert!(nr_torn > 10, "{nr_torn}");
}

/// Unsafe code relies on the drop of a submission context to wait, whatever the backend does.
#[test]
fn all_requests_are_completed_if_the_backend_panics() {
    for seed in 0..40 {
        let faults = Faults {
            failed: 200,
            misdirected: 200,
            ..Faults::harmless()
        };
        let engine = SimEngine::new(seed, faults);
        let calls = AtomicUsize::new(0);
        let panics = move |_: &Operation| {
            let nr = calls.fetch_add(1, Ordering::Relaxed);
            assert!(nr.is_multiple_of(2), "on purpose");
            Fault::None
        };
        let inner = MemoryBackend::writable(content(4096));
        let backend: Arc<dyn Backend> = Arc::new(FaultBackend::with_script(inner, panics));
        let nr_done = Arc::new(AtomicUsize::new(0));
        let mut lane = engine.lane();
        for _ in 0..16 {
            let done = Arc::clone(&nr_done);
            let request = Memory::with_bytes(&[1; 4096]).write(0, &[4096], move |_| {
                done.fetch_add(1, Ordering::Relaxed);
            });
            lane.submit(Job::new(Arc::clone(&backend), request));
        }
        if seed % 2 == 0 {
            engine.power_off_after(seed / 2);
        }
        drop(lane);
        assert_eq!(nr_done.load(Ordering::Relaxed), 16);
        assert_eq!(engine.nr_in_flight(), 0);
    }
}
