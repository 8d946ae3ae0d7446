//! Barriers: after a loss of power, whatever is there of one group, all of the groups before it is there.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pagewell::io::{Fault, FaultBackend, MemoryBackend, Operation, VolatileDevice};
use pagewell::refcount::RefScheme;
use pagewell::{Cache, ErrorKind, File};
use pagewell_testkit::wait::{Gate, OpenAtEnd, bounded_by, until};
use pagewell_testkit::{Rng, Seed};

use crate::storage::{EIO, Script, errno, manual, open_scripted, stored};
use crate::support::{self, PAGE, assert_all_free, cache};

support::for_both_schemes! {
    groups_reach_the_storage_in_order_whatever_is_lost
    a_barrier_and_a_write_after_it_wait_for_nothing
    a_page_of_the_group_before_is_made_durable_before_it_is_written_to
    a_page_that_is_held_holds_back_the_groups_after_it
    no_barrier_is_made_while_a_page_is_pinned_to_be_changed
    a_barrier_that_fails_is_none
    a_writer_that_waits_for_an_earlier_group_waits_for_nothing_else
    a_writer_that_waits_for_an_earlier_group_is_told_that_the_storage_fails
    writers_and_barriers_at_once_lose_nothing
}

const PAGES: u64 = 12;

/// How many stamps a page has, each in a sector of its own, which a device writes whole or not at all.
const STAMPS: u64 = PAGE as u64 / SECTOR;
const SECTOR: u64 = 512;

/// What was written so far: number `n` is element `n - 1`.
#[derive(Default)]
struct Log {
    writes: Vec<Write>,
    nr_barriers: u64,
    /// How many writes were made before the last sync that succeeded.
    nr_synced: u64,
}

#[derive(Clone, Copy)]
struct Write {
    place: u64,
    group: u64,
}

impl Log {
    fn next(&self) -> u64 {
        self.writes.len() as u64 + 1
    }

    fn wrote(&mut self, place: u64) {
        self.writes.push(Write {
            place,
            group: self.nr_barriers,
        });
    }

    fn group(&self, nr: u64) -> Option<u64> {
        nr.checked_sub(1).map(|at| self.writes[at as usize].group)
    }

    /// Checks the stamps of a file after a loss of power.
    fn check(&self, bytes: &[u8]) {
        let stamps: Vec<u64> = (0..PAGES * STAMPS)
            .map(|place| {
                let stamp = bytes.get((place * SECTOR) as usize..);
                let stamp = stamp.and_then(|rest| rest.first_chunk());
                stamp.map_or(0, |stamp| u64::from_le_bytes(*stamp))
            })
            .collect();
        let newest = stamps.iter().filter_map(|nr| self.group(*nr)).max();
        for (place, stamp) in (0..).zip(&stamps) {
            let at = |write: &Write| write.place == place;
            assert!(*stamp == 0 || at(&self.writes[*stamp as usize - 1]));
            let due = (1..).zip(&self.writes).filter(|(nr, write)| {
                at(write) && (Some(write.group) < newest || *nr <= self.nr_synced)
            });
            let due = due.map(|(nr, _)| nr).max().unwrap_or(0);
            assert!(
                *stamp >= due,
                "place {place} has write {stamp} of group {:?}; write {due} is due, of group {:?}, as group {newest:?} is there",
                self.group(*stamp),
                self.group(due)
            );
        }
    }
}

/// What may fail of itself: the power is off, a sync was made to fail, or a page is held.
fn is_expected(error: &pagewell::Error) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::Held)
}

fn step<S: RefScheme>(
    cache: &Cache<S>,
    file: &File<S>,
    device: &VolatileDevice,
    (log, held): (&mut Log, &mut Vec<u64>),
    rng: &mut Rng,
) -> Result<(), pagewell::Error> {
    match rng.below(20) {
        0..=9 => {
            let place = rng.below(PAGES * STAMPS);
            file.write_at(&log.next().to_le_bytes(), place * SECTOR)?;
            log.wrote(place);
        }
        10 => {
            let place = rng.below(PAGES * STAMPS);
            if file.size() > place / STAMPS * PAGE as u64 + (place % STAMPS) * SECTOR + 8 {
                let mut page = file.pin_mut(place / STAMPS)?;
                let at = (place % STAMPS * SECTOR) as usize;
                page[at..at + 8].copy_from_slice(&log.next().to_le_bytes());
                drop(page);
                log.wrote(place);
            }
        }
        11 | 12 => {
            file.barrier()?;
            log.nr_barriers += 1;
        }
        13 | 14 => {
            let first = rng.below(PAGES);
            let end = first + 1 + rng.below(PAGES);
            file.flush(first * PAGE as u64..end * PAGE as u64)?;
        }
        15 => {
            file.sync_data()?;
            log.nr_synced = log.writes.len() as u64;
        }
        16 => drop(cache.reclaim(rng.index(8))),
        17 if rng.one_in(4) => device.fail_next_sync(rng.below(2)),
        18 if held.len() < 2 => {
            let page = rng.below(PAGES);
            file.hold(page)?;
            held.push(page);
        }
        19 => {
            if let Some(page) = held.pop() {
                file.release(page)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn groups_reach_the_storage_in_order_whatever_is_lost<S: RefScheme>() {
    let seed = Seed::of_run();
    for part in 0..400 {
        let mut rng = seed.part(part);
        let device = VolatileDevice::new(rng.next_u64());
        drop(device.create("file").unwrap());
        device.sync_dir().unwrap();
        let cache = cache::<S>(64);
        let backend = device.open("file").unwrap();
        let file = cache.open_backend_with(backend, "file", &manual()).unwrap();
        device.power_off_after(5 + rng.below(60));
        let (mut log, mut held) = (Log::default(), Vec::new());
        for _ in 0..200 {
            match step(&cache, &file, &device, (&mut log, &mut held), &mut rng) {
                Ok(()) => {}
                Err(error) => assert!(is_expected(&error), "{error:?}; {}", seed.to_replay()),
            }
        }
        for _ in 0..4 {
            let after = device.crash(rng.next_u64());
            let bytes = stored(after.open("file").unwrap());
            let checked = std::panic::catch_unwind(|| log.check(&bytes));
            assert!(checked.is_ok(), "history {part}; {}", seed.to_replay());
        }
    }
}

/// The calls of a storage that change something, one letter each.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<String>>);

impl Calls {
    fn of(script: &Script) -> Self {
        let calls = Self::default();
        let log = calls.clone();
        script.set(move |operation| {
            let call = match operation {
                Operation::Write { .. } => 'w',
                Operation::SetSize { .. } => 'z',
                Operation::SyncData | Operation::SyncAll => 's',
                _ => return Fault::None,
            };
            // A test that fails drops its file, which syncs.
            log.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(call);
            Fault::None
        });
        calls
    }

    fn so_far(&self) -> String {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

fn a_barrier_and_a_write_after_it_wait_for_nothing<S: RefScheme>() {
    let cache = cache::<S>(64);
    let (file, backend, script) = open_scripted(&cache, &[], &manual());
    let calls = Calls::of(&script);
    file.write_at(&[1; PAGE], 0).unwrap();
    file.barrier().unwrap();
    file.write_at(&[2; PAGE], PAGE as u64).unwrap();
    assert_eq!(calls.so_far(), "");
    // What is before it alone needs no sync.
    assert_eq!(file.flush(0..PAGE as u64).unwrap(), 1);
    assert_eq!(calls.so_far(), "w");
    // What is after it does.
    assert_eq!(file.flush(0..u64::MAX).unwrap(), 1);
    assert_eq!(calls.so_far(), "wsw");
    // When all is durable a barrier costs nothing.
    file.sync_data().unwrap();
    file.barrier().unwrap();
    file.write_at(&[3; PAGE], 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(calls.so_far(), "wswsws");
    // A size is told after what was written before.
    file.write_at(&[4; PAGE], PAGE as u64).unwrap();
    file.barrier().unwrap();
    file.set_size(5 * PAGE as u64).unwrap();
    assert_eq!(calls.so_far(), "wswswswsz");
    drop(file);
    let mut expected = [[3; PAGE], [4; PAGE]].concat();
    expected.resize(5 * PAGE, 0);
    assert_eq!(stored(backend), expected);
    assert_all_free(&cache);
}

fn a_page_of_the_group_before_is_made_durable_before_it_is_written_to<S: RefScheme>() {
    let cache = cache::<S>(64);
    let (file, backend, script) = open_scripted(&cache, &[], &manual());
    let calls = Calls::of(&script);
    file.append(&[1; 100]).unwrap();
    file.barrier().unwrap();
    file.append(&[2; 100]).unwrap();
    assert_eq!(calls.so_far(), "ws");
    // The page is of the current group now.
    file.append(&[3; 100]).unwrap();
    assert_eq!(calls.so_far(), "ws");
    file.barrier().unwrap();
    let mut page = file.pin_mut(0).unwrap();
    assert_eq!(calls.so_far(), "wsws");
    page[0] = 9;
    drop(page);
    // Written, and not known to be durable: that is enough to wait for.
    file.flush(0..u64::MAX).unwrap();
    file.barrier().unwrap();
    file.write_at(&[8], 1).unwrap();
    assert_eq!(calls.so_far(), "wswsws");
    drop(file);
    let mut expected = [[1; 100], [2; 100], [3; 100]].concat();
    expected[..2].copy_from_slice(&[9, 8]);
    assert_eq!(stored(backend), expected);
}

fn a_page_that_is_held_holds_back_the_groups_after_it<S: RefScheme>() {
    let cache = cache::<S>(64);
    let (file, backend, script) = open_scripted(&cache, &[], &manual());
    file.write_at(&[1; 2 * PAGE], 0).unwrap();
    file.hold(1).unwrap();
    file.barrier().unwrap();
    file.write_at(&[2; PAGE], 2 * PAGE as u64).unwrap();
    for error in [
        file.sync_data().unwrap_err(),
        file.flush(0..u64::MAX).unwrap_err(),
        file.barrier().unwrap_err(),
        file.write_at(&[3], PAGE as u64).unwrap_err(),
        file.set_size(0).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Held, "{error}");
    }
    // The group before is written as far as it may be; of the next one nothing is.
    assert_eq!(stored(Arc::clone(&backend)), [1; PAGE]);
    let calls = Calls::of(&script);
    file.release(1).unwrap();
    file.sync_data().unwrap();
    assert_eq!(calls.so_far(), "wsws");
    assert_eq!(stored(backend), [[1; PAGE], [1; PAGE], [2; PAGE]].concat());
}

fn no_barrier_is_made_while_a_page_is_pinned_to_be_changed<S: RefScheme>() {
    let cache = cache::<S>(64);
    let (file, _, script) = open_scripted(&cache, &[7; PAGE], &manual());
    let mut page = file.pin_mut(0).unwrap();
    page[0] = 1;
    let error = file.barrier().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
    drop(page);
    file.barrier().unwrap();
    // A page that cannot be pinned does not keep barriers from being made.
    assert_eq!(file.pin_mut(1).unwrap_err().kind(), ErrorKind::OutOfRange);
    script.set(|_| Fault::Fail(errno(EIO)));
    assert_eq!(file.pin_mut(0).unwrap_err().kind(), ErrorKind::Io);
    script.heal();
    // The handle was told.
    file.sync_data().unwrap();
    file.barrier().unwrap();
}

fn a_barrier_that_fails_is_none<S: RefScheme>() {
    let cache = cache::<S>(64);
    let (file, backend, script) = open_scripted(&cache, &[], &manual());
    file.write_at(&[1; PAGE], 0).unwrap();
    file.barrier().unwrap();
    file.write_at(&[2; PAGE], PAGE as u64).unwrap();
    for what in ['w', 's'] {
        script.set(move |operation| match operation {
            Operation::Write { .. } if what == 'w' => Fault::Fail(errno(EIO)),
            Operation::SyncData if what == 's' => Fault::Fail(errno(EIO)),
            _ => Fault::None,
        });
        for error in [
            file.barrier().unwrap_err(),
            file.write_at(&[3], 0).unwrap_err(),
            file.flush(0..u64::MAX).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        }
    }
    let calls = Calls::of(&script);
    // Still two groups; the first is given again, since its sync has failed.
    file.sync_data().unwrap();
    assert_eq!(calls.so_far(), "wsws");
    assert_eq!(stored(backend), [[1; PAGE], [2; PAGE]].concat());
}

/// A file with a page of the earlier group and one of the current group, whose syncs wait in the storage for a gate each, and then do as
/// they are told.
fn split<S: RefScheme>(
    cache: &Cache<S>,
    gates: [&Arc<Gate>; 2],
    then: impl Fn() -> Fault + Send + Sync + 'static,
) -> (File<S>, Arc<FaultBackend<MemoryBackend>>) {
    let (file, backend, script) = open_scripted(cache, &[], &manual());
    file.write_at(&[1; PAGE], 0).unwrap();
    file.barrier().unwrap();
    file.write_at(&[2; PAGE], PAGE as u64).unwrap();
    let gates = gates.map(Arc::clone);
    let nr_syncs = AtomicUsize::new(0);
    script.set(move |operation| match operation {
        Operation::SyncData => {
            if let Some(gate) = gates.get(nr_syncs.fetch_add(1, Ordering::Relaxed)) {
                gate.pass();
            }
            then()
        }
        _ => Fault::None,
    });
    (file, backend)
}

/// Long enough for a thread to be where it waits; if it is not, the test shows less.
const A_WHILE: Duration = Duration::from_millis(30);

fn a_writer_that_waits_for_an_earlier_group_waits_for_nothing_else<S: RefScheme>() {
    bounded_by(Duration::from_secs(60), "a write", || {
        let cache = cache::<S>(64);
        let gates = [&Arc::new(Gate::new()), &Arc::new(Gate::new())];
        let (file, backend) = split(&cache, gates, || Fault::None);
        std::thread::scope(|scope| {
            let _open = gates.map(|gate| OpenAtEnd(gate));
            let sync = scope.spawn(|| file.sync_data());
            until("the first group is synced", || gates[0].nr_arrived() == 1);
            let write = scope.spawn(|| file.write_at(&[3; PAGE], 0));
            std::thread::sleep(A_WHILE);
            assert!(!write.is_finished());
            gates[0].open();
            until("the second group is synced", || gates[1].nr_arrived() == 1);
            // That one has not ended.
            assert_eq!(write.join().unwrap().unwrap(), PAGE);
            assert!(!sync.is_finished());
            gates[1].open();
            sync.join().unwrap().unwrap();
        });
        // With the second group or after it.
        file.sync_data().unwrap();
        assert!(stored(backend) == [[3; PAGE], [2; PAGE]].concat());
    });
}

fn a_writer_that_waits_for_an_earlier_group_is_told_that_the_storage_fails<S: RefScheme>() {
    bounded_by(Duration::from_secs(60), "a write", || {
        let cache = cache::<S>(64);
        let is_broken = Arc::new(AtomicBool::new(true));
        let broken = Arc::clone(&is_broken);
        let open = Arc::new(Gate::new());
        open.open();
        let gates = [&Arc::new(Gate::new()), &open];
        let (file, backend) = split(&cache, gates, move || {
            match broken.load(Ordering::Relaxed) {
                true => Fault::Fail(errno(EIO)),
                false => Fault::None,
            }
        });
        std::thread::scope(|scope| {
            let _open = OpenAtEnd(gates[0]);
            let sync = scope.spawn(|| file.sync_data());
            until("the first group is synced", || gates[0].nr_arrived() == 1);
            let write = scope.spawn(|| file.write_at(&[3; PAGE], 0));
            std::thread::sleep(A_WHILE);
            gates[0].open();
            assert_eq!(sync.join().unwrap().unwrap_err().kind(), ErrorKind::Io);
            assert_eq!(write.join().unwrap().unwrap_err().kind(), ErrorKind::Io);
        });
        is_broken.store(false, Ordering::Relaxed);
        file.write_at(&[3; PAGE], 0).unwrap();
        file.sync_data().unwrap();
        assert!(stored(backend) == [[3; PAGE], [2; PAGE]].concat());
    });
}

fn writers_and_barriers_at_once_lose_nothing<S: RefScheme>() {
    bounded_by(Duration::from_secs(60), "writers and barriers", || {
        const ROUNDS: u64 = 300;
        let cache = cache::<S>(64);
        let (file, backend, _) = open_scripted(&cache, &[0; 8 * PAGE], &manual());
        std::thread::scope(|scope| {
            for writer in 0..3 {
                let file = &file;
                scope.spawn(move || {
                    for round in 1..=ROUNDS {
                        for page in 0..8 {
                            let at = page * PAGE as u64 + writer * 8;
                            file.write_at(&round.to_le_bytes(), at).unwrap();
                        }
                        if round % 3 == writer {
                            file.barrier().unwrap();
                        }
                        if round % 10 == writer {
                            file.flush(0..4 * PAGE as u64).unwrap();
                        }
                    }
                });
            }
        });
        file.sync_data().unwrap();
        let bytes = stored(backend);
        for page in 0..8 {
            for writer in 0..3 {
                let at = page * PAGE + writer * 8;
                assert_eq!(bytes[at..at + 8], ROUNDS.to_le_bytes());
            }
        }
    });
}
