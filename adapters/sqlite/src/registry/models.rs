//! Models of the races of the registry, explored by loom.
//!
//! `cd models && cargo test --profile loom -p pagewell-sqlite-registry`
//!
//! `verify/mutants/sqlite.mutants` has changes that these models reject.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
// Not loom's `Arc`: sharing of the registry is not part of the models.
use std::sync::Arc;

use loom::cell::UnsafeCell as Watched;
use loom::model::Builder;
use loom::thread;
use pagewell_sync::atomic::{AtomicBool, Ordering};

use super::{Entered, Registry, User};

/// Registry of files, and whether each file is locked against other open file descriptions.
struct World {
    registry: Registry<usize, Open>,
    locked: Arc<[AtomicBool; 2]>,
}

/// Open file. Its drop releases the lock, as the drop of the database's backend does.
struct Open {
    /// loom checks that the last user accesses this after all others.
    content: Watched<u32>,
    locked: Arc<[AtomicBool; 2]>,
    key: usize,
}

impl Drop for Open {
    fn drop(&mut self) {
        // SAFETY: loom checks that no other thread uses the content.
        self.content.with_mut(|content| unsafe { *content += 1 });
        // ORDERING: Relaxed; file locks do not order memory, so the registry's mutex must order
        // this before the next open's access.
        self.locked[self.key].store(false, Ordering::Relaxed);
    }
}

/// Payload of the panic of [`End::ClosePanics`]. Other panics are failures of a model.
struct Intended;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Closed,
    /// The open fails after the lock was acquired, or before it joins.
    OpenFails,
    /// The close, if this session is the last, panics.
    ClosePanics,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            registry: Registry::new(),
            locked: Arc::new([AtomicBool::new(false), AtomicBool::new(false)]),
        })
    }

    fn open(&self, key: usize, end: End) -> Option<User<'_, usize, Open>> {
        let claim = match self.registry.enter(key) {
            Entered::Candidate(candidate) => {
                // SAFETY: loom checks that no thread changes the content.
                candidate.content.with(|content| unsafe { *content });
                return (end != End::OpenFails).then(|| candidate.join());
            }
            Entered::Claimed(claim) => claim,
        };
        // ORDERING: Relaxed, as in the drop.
        let was_locked = self.locked[key].swap(true, Ordering::Relaxed);
        assert!(
            !was_locked,
            "BUSY because of another thread of this process"
        );
        let open = Open {
            content: Watched::new(0),
            locked: Arc::clone(&self.locked),
            key,
        };
        if end == End::OpenFails {
            drop(open);
            return None;
        }
        Some(claim.publish(open))
    }

    fn session(&self, key: usize, end: End) {
        let Some(user) = self.open(key, end) else {
            return;
        };
        // SAFETY: loom checks that no thread changes the content.
        user.content.with(|content| unsafe { *content });
        let close = |open: Open| {
            if end == End::ClosePanics {
                // Unlike `panic!`, this prints no message.
                resume_unwind(Box::new(Intended));
            }
            drop(open);
        };
        let closed = catch_unwind(AssertUnwindSafe(|| user.leave(close)));
        if let Err(payload) = closed
            && !payload.is::<Intended>()
        {
            resume_unwind(payload);
        }
    }

    fn check_closed(&self) {
        assert_eq!(self.registry.nr_entries(), 0, "an entry is left");
        for locked in &*self.locked {
            // ORDERING: Relaxed; all threads were joined.
            assert!(!locked.load(Ordering::Relaxed), "a lock is left");
        }
    }
}

fn bounded(preemptions: usize) -> Builder {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder
}

/// Runs a thread for each list of sessions, in all interleavings within the bound of preemptions.
fn explore(preemptions: usize, threads: &'static [&'static [(usize, End)]]) {
    bounded(preemptions).check(move || {
        let world = World::new();
        let run = |world: &World, sessions: &[(usize, End)]| {
            for (key, end) in sessions {
                world.session(*key, *end);
            }
        };
        let spawned: Vec<_> = threads[1..]
            .iter()
            .map(|sessions| {
                let world = Arc::clone(&world);
                thread::spawn(move || run(&world, sessions))
            })
            .collect();
        run(&world, threads[0]);
        spawned
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        world.check_closed();
    });
}

/// Two sessions in each of two threads: an open may race with the close of the other thread.
#[test]
fn loom_reopen_vs_close() {
    const TWICE: &[(usize, End)] = &[(0, End::Closed), (0, End::Closed)];
    explore(3, &[TWICE, TWICE]);
}

#[test]
fn loom_three_sessions() {
    const ONCE: &[(usize, End)] = &[(0, End::Closed)];
    explore(3, &[ONCE, ONCE, ONCE]);
}

/// If an open fails, the threads that wait for it open the file themselves.
#[test]
fn loom_open_vs_failed_open() {
    const FAILS: &[(usize, End)] = &[(0, End::OpenFails)];
    explore(3, &[FAILS, &[(0, End::Closed)], FAILS]);
}

#[test]
fn loom_open_vs_close_that_panics() {
    const PANICS: &[(usize, End)] = &[(0, End::ClosePanics)];
    explore(3, &[PANICS, &[(0, End::Closed)], PANICS]);
}

/// While one file is claimed, and a thread waits for it, two threads open and close another file.
#[test]
fn loom_other_key_vs_claim() {
    bounded(2).check(|| {
        let world = World::new();
        let spawn = |key| {
            let world = Arc::clone(&world);
            thread::spawn(move || world.session(key, End::Closed))
        };
        let Entered::Claimed(claim) = world.registry.enter(1) else {
            panic!("the key is closed");
        };
        let waits = spawn(1);
        let others = [spawn(0), spawn(0)];
        others.into_iter().for_each(|thread| thread.join().unwrap());
        drop(claim);
        waits.join().unwrap();
        world.check_closed();
    });
}

/// Threads that wait for an open join the file while it is in use, and not only after its close.
#[test]
fn loom_join_vs_open() {
    bounded(3).check(|| {
        let world = World::new();
        let spawned = [(); 2].map(|()| {
            let world = Arc::clone(&world);
            thread::spawn(move || world.session(0, End::Closed))
        });
        let user = world.open(0, End::Closed);
        spawned
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        drop(user);
        world.check_closed();
    });
}

/// An open that fails closes nothing: when the only user has left, the file is not locked.
#[test]
fn loom_last_close_vs_failed_join() {
    bounded(3).check(|| {
        let world = World::new();
        let user = world.open(0, End::Closed).unwrap();
        let spawned = [(); 2].map(|()| {
            let world = Arc::clone(&world);
            thread::spawn(move || world.session(0, End::OpenFails))
        });
        let is_closed = user.leave(drop);
        assert!(is_closed.is_some(), "an open that fails counts as a user");
        spawned
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        world.check_closed();
    });
}

/// A candidate joins while the last user leaves, and a third thread enters.
#[test]
fn loom_last_close_vs_join() {
    bounded(3).check(|| {
        let world = World::new();
        let user = world.open(0, End::Closed).unwrap();
        let spawned = [End::Closed, End::OpenFails].map(|end| {
            let world = Arc::clone(&world);
            thread::spawn(move || world.session(0, end))
        });
        drop(user);
        spawned
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        world.check_closed();
    });
}
