//! Models of the races of handles, explored by loom, which also checks that nobody uses an object while somebody else takes it out.
//!
//! `cd models && cargo test --profile loom -p pagewell-capi-handles`
//!
//! What breaks them is in `verify/mutants/capi.mutants` (`handle-*`).

// Not loom's: who shares the table is no part of the model.
use std::sync::Arc;

use loom::cell::UnsafeCell as Watched;
use loom::model::Builder;
use loom::thread;
use pagewell_sync::asymmetric::Fences;

use super::cell::Mutex;
use super::hazards::{Announced, Line, Lines};
use super::table::{Free, Refusal, Slot, Table};

/// An object that says whose it is, and is watched.
struct Object(Watched<u32>);

/// A table, and lines for two threads.
struct World {
    slots: Vec<Slot<Object>>,
    free: Mutex<Free>,
    lines: Lines<2>,
    fences: Fences,
}

impl World {
    /// With `nr` slots, the first of which is never used.
    fn new(nr: usize) -> Arc<Self> {
        Arc::new(Self {
            slots: (0..nr).map(|_| Slot::new()).collect(),
            free: Mutex::new(Free::NEW),
            lines: Lines::new(),
            fences: Fences::new(),
        })
    }

    fn table(&self) -> Table<'_, Object> {
        Table::new(1, &self.slots, &self.free)
    }

    fn add(&self, whose: u32) -> u64 {
        self.table().add(Object(Watched::new(whose))).unwrap()
    }

    /// An announced call, which looks at the object: whose it is, unless the handle is refused.
    fn look(&self, line: &Line, handle: u64) -> Result<u32, Refusal> {
        let announced = Announced::begin(line, handle).unwrap();
        let object = self.table().announced(&announced)?;
        // SAFETY: loom checks that nobody changes it.
        Ok(object.0.with(|whose| unsafe { *whose }))
    }

    /// The same of a counted call.
    fn look_counted(&self, handle: u64) -> Result<u32, Refusal> {
        let counted = self.table().counted(handle)?;
        // SAFETY: loom checks that nobody changes it.
        Ok(counted.0.with(|whose| unsafe { *whose }))
    }

    /// Closes a handle, and uses the object as only its owner may.
    fn close(&self, handle: u64) -> Result<u32, Refusal> {
        let is_announced = |handle| self.lines.is_announced(handle, self.fences);
        let mut taken = self.table().take(handle, is_announced)?;
        // SAFETY: loom checks that nobody uses it.
        taken.object().0.with_mut(|whose| unsafe { *whose += 100 });
        Ok(taken.end().0.into_inner())
    }

    /// The same, but the object goes back: whether it got so far.
    fn close_in_vain(&self, handle: u64) -> bool {
        let is_announced = |handle| self.lines.is_announced(handle, self.fences);
        let taken = self.table().take(handle, is_announced);
        if let Ok(mut taken) = taken {
            // SAFETY: loom checks that nobody uses it.
            taken.object().0.with_mut(|whose| unsafe { *whose += 100 });
            return true;
        }
        false
    }
}

/// Whether a call with the handle of object 1, which somebody closes, was answered as it should be.
fn is_told(seen: Result<u32, Refusal>) -> bool {
    matches!(seen, Ok(1) | Err(Refusal::Closing | Refusal::Closed))
}

fn model(work: impl Fn() + Sync + Send + 'static) {
    let mut model = Builder::new();
    // Exhaustive within the bound; without one some take minutes.
    model.preemption_bound = model.preemption_bound.or(Some(3));
    model.check(work);
}

/// An announced call against a close: one is told of the other, or both are, and the object is used by one at a time.
#[test]
fn loom_announced_call_vs_close() {
    model(|| {
        let world = World::new(2);
        let handle = world.add(1);
        let call = thread::spawn({
            let world = Arc::clone(&world);
            move || {
                let line = world.lines.lend().unwrap();
                world.look(line, handle)
            }
        });
        let closed = world.close(handle);
        let seen = call.join().unwrap();
        assert!(
            matches!(closed, Ok(101) | Err(Refusal::InCall)),
            "{closed:?}"
        );
        assert!(is_told(seen), "{seen:?}");
        let again = world.close(handle);
        assert_eq!(again.is_ok(), closed.is_err(), "{again:?}");
        assert_eq!(world.look_counted(handle), Err(Refusal::Closed));
    });
}

/// The same of a counted call. It is refused by a close that turns out to be in vain, too.
#[test]
fn loom_counted_call_vs_close() {
    model(|| {
        let world = World::new(2);
        let handle = world.add(1);
        let call = thread::spawn({
            let world = Arc::clone(&world);
            move || world.look_counted(handle)
        });
        let closed = world.close(handle);
        let seen = call.join().unwrap();
        assert!(
            matches!(closed, Ok(101) | Err(Refusal::InUse)),
            "{closed:?}"
        );
        assert!(is_told(seen), "{seen:?}");
        let again = world.close(handle);
        assert_eq!(again.is_ok(), closed.is_err(), "{again:?}");
    });
}

/// A count that was taken over from another one keeps the object, though the first has gone.
#[test]
fn loom_count_taken_over_vs_close() {
    model(|| {
        let world = World::new(2);
        let handle = world.add(1);
        let call = thread::spawn({
            let world = Arc::clone(&world);
            move || {
                let table = world.table();
                let first = table.counted(handle).ok()?;
                let second = first.again();
                drop(first);
                // SAFETY: loom checks that nobody changes it.
                Some(second.0.with(|whose| unsafe { *whose }))
            }
        });
        let closed = world.close(handle);
        let seen = call.join().unwrap();
        assert!(matches!(seen, Some(1) | None), "{seen:?}");
        let again = world.close(handle);
        assert_eq!(again.is_ok(), closed.is_err(), "{again:?}");
    });
}

/// Two close one handle: one of them does.
#[test]
fn loom_close_vs_close() {
    model(|| {
        let world = World::new(2);
        let handle = world.add(1);
        let other = thread::spawn({
            let world = Arc::clone(&world);
            move || world.close(handle)
        });
        let results = [world.close(handle), other.join().unwrap()];
        let nr = results.iter().filter(|result| **result == Ok(101)).count();
        assert_eq!(nr, 1, "{results:?}");
        let is_told = |result: &Result<_, _>| {
            matches!(result, Ok(101) | Err(Refusal::Closing | Refusal::Closed))
        };
        assert!(results.iter().all(is_told), "{results:?}");
    });
}

/// A close that is in vain against one that is not: what the first leaves behind is what the second finds.
#[test]
fn loom_close_vs_close_and_call() {
    model(|| {
        let world = World::new(2);
        let handle = world.add(1);
        let table = world.table();
        let counted = table.counted(handle).unwrap();
        let other = thread::spawn({
            let world = Arc::clone(&world);
            move || world.close(handle)
        });
        // SAFETY: loom checks that nobody changes it.
        assert_eq!(counted.0.with(|whose| unsafe { *whose }), 1);
        drop(counted);
        let results = [world.close(handle), other.join().unwrap()];
        let nr = results.iter().filter(|result| **result == Ok(101)).count();
        assert!(nr <= 1, "{results:?}");
        assert_eq!(world.close(handle).is_ok(), nr == 0, "{results:?}");
    });
}

/// A close that changes the object and puts it back, as one of a file that cannot be written: a call sees it before or after, or is refused.
#[test]
fn loom_close_in_vain_vs_call() {
    model(|| {
        let world = World::new(2);
        let handle = world.add(1);
        let call = thread::spawn({
            let world = Arc::clone(&world);
            move || {
                let line = world.lines.lend().unwrap();
                (world.look(line, handle), world.look_counted(handle))
            }
        });
        world.close_in_vain(handle);
        let (announced, counted) = call.join().unwrap();
        assert!(
            matches!(announced, Ok(1 | 101) | Err(Refusal::Closing)),
            "{announced:?}"
        );
        let is_told = matches!(counted, Ok(1 | 101) | Err(Refusal::Closing));
        assert!(is_told, "{counted:?}");
        assert!(world.close(handle).is_ok());
    });
}

/// Two closes that change the object and put it back: one after the other.
#[test]
fn loom_closes_in_vain() {
    model(|| {
        let world = World::new(2);
        let handle = world.add(1);
        let other = thread::spawn({
            let world = Arc::clone(&world);
            move || world.close_in_vain(handle)
        });
        let nr = u32::from(world.close_in_vain(handle)) + u32::from(other.join().unwrap());
        assert!(nr >= 1);
        assert_eq!(world.close(handle), Ok(1 + 100 * nr + 100));
    });
}

/// A stale handle against the one that has its slot now: it is never taken for that, by a call of either kind.
#[test]
fn loom_stale_handle_vs_reuse() {
    model(|| {
        let world = World::new(2);
        let first = world.add(1);
        let call = thread::spawn({
            let world = Arc::clone(&world);
            move || {
                let line = world.lines.lend().unwrap();
                world.look(line, first)
            }
        });
        if world.close(first).is_ok() {
            let second = world.add(2);
            assert_ne!(first, second);
            assert_eq!(world.close(second), Ok(102));
        }
        let seen = call.join().unwrap();
        assert!(is_told(seen), "{seen:?}");
    });
}

/// The same of a counted call, which may stand in the new one's way for a moment.
#[test]
fn loom_stale_handle_counted_vs_reuse() {
    model(|| {
        let world = World::new(2);
        let first = world.add(1);
        let call = thread::spawn({
            let world = Arc::clone(&world);
            move || world.look_counted(first)
        });
        let mut open = None;
        if world.close(first).is_ok() {
            let second = world.add(2);
            assert_eq!(world.look_counted(second), Ok(2));
            match world.close(second) {
                Ok(whose) => assert_eq!(whose, 102),
                Err(refusal) => {
                    assert_eq!(refusal, Refusal::InUse);
                    open = Some(second);
                }
            }
        }
        let seen = call.join().unwrap();
        assert!(is_told(seen), "{seen:?}");
        if let Some(second) = open {
            assert_eq!(world.close(second), Ok(102));
        }
    });
}

/// A handle that is handed to another thread without further ado: its object is there.
#[test]
fn loom_new_handle_vs_call() {
    model(|| {
        let world = World::new(2);
        let (first, generation) = (world.add(1), 1 << 16);
        let next = first + generation;
        let call = thread::spawn({
            let world = Arc::clone(&world);
            move || {
                let line = world.lines.lend().unwrap();
                (world.look(line, next), world.look_counted(next))
            }
        });
        assert_eq!(world.close(first), Ok(101));
        // As programs do that keep handles where they were: the number may be known before.
        assert_eq!(world.add(2), next);
        let (announced, counted) = call.join().unwrap();
        assert!(
            matches!(announced, Ok(2) | Err(Refusal::Closed)),
            "{announced:?}"
        );
        assert!(
            matches!(counted, Ok(2) | Err(Refusal::Closed)),
            "{counted:?}"
        );
        assert!(announced.is_err() || counted.is_ok());
    });
}

/// A call in a call, as of a hook: it is not announced, and the outer one is as long as it lasts.
#[test]
fn loom_call_in_a_call_vs_close() {
    model(|| {
        let world = World::new(4);
        let (outer, inner) = (world.add(1), world.add(2));
        let calls = thread::spawn({
            let world = Arc::clone(&world);
            move || {
                let line = world.lines.lend().unwrap();
                let announced = Announced::begin(line, outer).unwrap();
                let object = world.table().announced(&announced).ok()?;
                drop(Announced::begin(line, inner));
                // SAFETY: loom checks that nobody changes it.
                Some(object.0.with(|whose| unsafe { *whose }))
            }
        });
        let closed = world.close(outer);
        assert!(
            matches!(closed, Ok(101) | Err(Refusal::InCall)),
            "{closed:?}"
        );
        let seen = calls.join().unwrap();
        assert!(matches!(seen, Some(1) | None), "{seen:?}");
    });
}

/// A thread goes from one handle to the next: who closes the first, and finds the second in the line, has seen the end of the first call.
#[test]
fn loom_next_call_vs_close() {
    model(|| {
        let world = World::new(4);
        let (first, second) = (world.add(1), world.add(2));
        let calls = thread::spawn({
            let world = Arc::clone(&world);
            move || {
                let line = world.lines.lend().unwrap();
                (world.look(line, first), world.look(line, second))
            }
        });
        let closed = world.close(first);
        assert!(
            matches!(closed, Ok(101) | Err(Refusal::InCall)),
            "{closed:?}"
        );
        let (one, two) = calls.join().unwrap();
        assert!(is_told(one), "{one:?}");
        assert_eq!(two, Ok(2));
    });
}

/// A thread ends, and its line goes to another one: a closer misses neither.
#[test]
fn loom_end_of_thread_vs_close() {
    model(|| {
        let world = World::new(2);
        let handle = world.add(1);
        let threads = [(); 2].map(|()| {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let line = world.lines.lend().unwrap();
                let seen = world.look(line, handle);
                world.lines.take_back(line);
                seen
            })
        });
        let closed = world.close(handle);
        let seen = threads.map(|thread| thread.join().unwrap());
        assert!(seen.iter().all(|seen| is_told(*seen)), "{seen:?}");
        assert!(
            matches!(closed, Ok(101) | Err(Refusal::InCall)),
            "{closed:?}"
        );
        let again = world.close(handle);
        assert_eq!(again.is_ok(), closed.is_err(), "{again:?}");
    });
}

/// Lines of threads that are there at once are different ones, and there are no more than there are.
#[test]
fn loom_lines_are_lent_to_one_at_a_time() {
    model(|| {
        let world = World::new(2);
        let threads = [(); 2].map(|()| {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let line = world.lines.lend().unwrap();
                (line.number(), Announced::begin(line, 5).is_some())
            })
        });
        let [one, other] = threads.map(|thread| thread.join().unwrap());
        assert!(one.1 && other.1);
        assert_ne!(one.0, other.0);
        assert!(world.lines.lend().is_none());
    });
}

/// A call panics while somebody tries to close: the handle is dead or closed, and a dead one can be closed.
#[test]
fn loom_panic_vs_close() {
    model(|| {
        let world = World::new(2);
        let handle = world.add(1);
        let call = thread::spawn({
            let world = Arc::clone(&world);
            move || {
                let table = world.table();
                let counted = table.counted(handle);
                let has_begun = counted.is_ok();
                drop(counted);
                if has_begun {
                    table.mark_dead(handle);
                }
                has_begun
            }
        });
        let closed = world.close(handle);
        let is_dead = call.join().unwrap();
        let refusal = world.look_counted(handle).err();
        match (closed, is_dead) {
            (Ok(whose), _) => assert_eq!((whose, refusal), (101, Some(Refusal::Closed))),
            (Err(_), true) => {
                assert_eq!(refusal, Some(Refusal::Dead));
                assert_eq!(world.close(handle), Ok(101));
            }
            (Err(_), false) => assert_eq!(refusal, None),
        }
    });
}
