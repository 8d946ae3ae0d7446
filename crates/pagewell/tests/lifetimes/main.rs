//! Lifetimes of caches, engines, files, guards, futures and wakers: random histories.
//!
//! A history follows from one seed, except for its interleaving. Actors, a thread each, share a
//! cache. They open, use, clone, close and drop files, run tasks on three kinds of executors, fork,
//! and build short-lived caches. The backend of one more file stalls, panics or fails. Checks:
//!
//! - Every byte read is as written. A closed file has the bytes of its model.
//! - An open that fails changes nothing.
//! - No operation on a healthy file takes longer than [`LIMIT`]. Otherwise the watchdog prints the
//!   operations in progress, and aborts.
//! - After a history, the process has as many threads and descriptors as before, and all frames are
//!   free. Over many histories, the number of mappings and the resident memory do not grow.
//!
//! A failure prints the seed of its history, which `PAGEWELL_SEED` runs first. The test runs
//! [`NR_HISTORIES`] histories, and more until `PAGEWELL_SOAK_SECONDS` have passed.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use pagewell_testkit::rng::mix;
use pagewell_testkit::wait::{Gate, OpenAtEnd};
use pagewell_testkit::{Rng, Seed, scratch};

use accounts::{Census, MemoryGrowth, assert_all_free};
use actor::{Actor, Pin};
use faults::{PLANNED, Sick, Stalled};
use journal::{PrintOnPanic, step};
use shared::{Shared, builder, choice};

mod accounts;
mod actor;
mod executors;
mod faults;
mod journal;
mod own;
mod shared;
mod tasks;

const PAGE: usize = 4096;

/// Maximum duration of an operation on a healthy file, before the factor of the environment.
const LIMIT: Duration = Duration::from_secs(60);

/// Minimum number of histories, which a debug build runs in three seconds.
const NR_HISTORIES: usize = 40;

fn history(seed: u64, before: &Census) {
    journal::begin(seed);
    let mut rng = Rng::new(seed);
    let dir = scratch::dir();
    let shared = Arc::new(Shared::new(dir.path().to_owned(), &mut rng));
    let engine = choice(&mut rng);
    let capacity = [200, 400, 1000][rng.index(3)] * PAGE as u64;
    let cache = builder(engine, capacity).build().unwrap();
    let (sick, gate) = (Sick::draw(&mut rng, engine), Arc::new(Gate::new()));
    let setup = format!("{engine:?}, {capacity} bytes, {sick:?}");
    let stalled = step(setup, || Stalled::start(&cache, sick, &gate));
    // Dropped before the stalled files, whose drop waits for their calls.
    let open_at_end = OpenAtEnd(&gate);
    // To count frames, the cache must be dropped last.
    let last = rng.one_in(2).then(|| cache.clone());
    let pins: Vec<Pin> = thread::scope(|scope| {
        let mut actors = Vec::new();
        for nr in 0..1 + rng.index(3) {
            let actor = Actor::new(&shared, nr, cache.clone(), Rng::part(seed, nr as u64));
            let nr_steps = 5 + rng.index(40);
            let thread = thread::Builder::new().name(format!("actor {nr}"));
            let actor = thread.spawn_scoped(scope, move || actor.run(nr_steps));
            actors.push(actor.unwrap());
        }
        let rng = Rng::new(rng.next_u64());
        let thread = thread::Builder::new().name("faults".to_owned());
        let user = thread.spawn_scoped(scope, move || sick.use_file(cache, rng));
        user.unwrap();
        let actors = actors.into_iter().map(|actor| actor.join());
        actors.flat_map(|pins| pins.expect("an actor")).collect()
    });
    drop(open_at_end);
    step("end of the stalled files", || stalled.end(&mut rng));
    let check_pins = || {
        for (guard, offset) in &pins {
            shared.check(guard, *offset).expect("a pinned page");
        }
    };
    check_pins();
    if let Some(cache) = last {
        step("end of the pins", || drop(pins));
        assert_all_free(&cache);
        step("end of the cache", || drop(cache));
        before.settle("after a cache");
    } else {
        before.settle("after a cache of which pinned pages are left");
        check_pins();
        step("end of the pins", || drop(pins));
    }
    shared.check_stored_slab();
}

#[test]
fn histories_leave_no_thread_descriptor_frame_or_memory() {
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if info.payload().downcast_ref::<&str>() != Some(&PLANNED) {
            default_hook(info);
        }
    }));
    let seconds = std::env::var("PAGEWELL_SOAK_SECONDS").map_or(0, |text| {
        text.parse().expect("PAGEWELL_SOAK_SECONDS in seconds")
    });
    let mut seed = Seed::of_run().get();
    thread::spawn(|| journal::watch(LIMIT));
    let (before, mut memory) = (Census::take(), MemoryGrowth::default());
    let _print = PrintOnPanic;
    let start = Instant::now();
    let mut nr_histories = 0;
    while nr_histories < NR_HISTORIES || start.elapsed() < Duration::from_secs(seconds) {
        history(seed, &before);
        memory.check();
        seed = mix(seed.wrapping_add(1));
        nr_histories += 1;
    }
    println!("{memory:?} in {:?}", start.elapsed());
}
