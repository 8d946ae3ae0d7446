//! Loom models of the races of handles. They also check that no thread uses an object while another
//! thread takes it out. The parent module has the command and names the mutants.

// Not loom's `Arc`: sharing of the table is not part of the model.
use std::sync::Arc;

use loom::cell::UnsafeCell as Watched;
use loom::model::Builder;
use loom::thread;
use pagewell_sync::asymmetric::Fences;

use super::hazards::{Announced, Line, Lines};
use super::table::{Free, Refusal, Slot, Table};

/// Object whose accesses loom checks, with the number of its owner.
struct Object(Watched<u32>);

struct World {
    slots: Vec<Slot<Object>>,
    free: Free,
    lines: Lines<2>,
    fences: Fences,
}

impl World {
    /// Creates a table with `nr` slots. Slot 0 is never used.
    fn new(nr: usize) -> Arc<Self> {
        Arc::new(Self {
            slots: (0..nr).map(|_| Slot::new()).collect(),
            free: Free::new(),
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

    /// Performs a published call. Returns the owner of the object, unless the handle is refused.
    fn look(&self, line: &Line, handle: u64) -> Result<u32, Refusal> {
        let announced = Announced::begin(line, handle).unwrap();
        let object = self.table().announced(&announced)?;
        // SAFETY: loom checks that no thread changes the object.
        Ok(object.0.with(|whose| unsafe { *whose }))
    }

    /// Performs a counted call, as above.
    fn look_counted(&self, handle: u64) -> Result<u32, Refusal> {
        let counted = self.table().counted(handle)?;
        // SAFETY: loom checks that no thread changes the object.
        Ok(counted.0.with(|whose| unsafe { *whose }))
    }

    /// Closes a handle, and accesses the object exclusively.
    fn close(&self, handle: u64) -> Result<u32, Refusal> {
        let is_announced = |handle| self.lines.is_announced(handle, self.fences);
        let mut taken = self.table().take(handle, is_announced)?;
        // SAFETY: loom checks that no other thread uses the object.
        taken.object().0.with_mut(|whose| unsafe { *whose += 100 });
        Ok(taken.end().0.into_inner())
    }

    /// As above, for a kind without published calls: without the heavy fence.
    fn close_without_fence(&self, handle: u64) -> Result<u32, Refusal> {
        let mut taken = self.table().take(handle, |_| Ok(false))?;
        // SAFETY: loom checks that no other thread uses the object.
        taken.object().0.with_mut(|whose| unsafe { *whose += 100 });
        Ok(taken.end().0.into_inner())
    }

    /// As `close`, but puts the object back. Returns whether it was taken.
    fn close_in_vain(&self, handle: u64) -> bool {
        let is_announced = |handle| self.lines.is_announced(handle, self.fences);
        let taken = self.table().take(handle, is_announced);
        if let Ok(mut taken) = taken {
            // SAFETY: loom checks that no other thread uses the object.
            taken.object().0.with_mut(|whose| unsafe { *whose += 100 });
            return true;
        }
        false
    }
}

/// Checks the result of a call with the handle of object 1, which another thread closes.
fn is_told(seen: Result<u32, Refusal>) -> bool {
    matches!(seen, Ok(1) | Err(Refusal::Closing | Refusal::Closed))
}

fn model(work: impl Fn() + Sync + Send + 'static) {
    let mut model = Builder::new();
    // Exhaustive within this bound. Without a bound, some models take minutes.
    model.preemption_bound = model.preemption_bound.or(Some(3));
    model.check(work);
}

/// A published call races with a close: at least one of them sees the other.
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

/// A counted call races with a close. The call may be refused although the close fails in the end,
/// since the handle counts as closed during the attempt.
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

/// As above, for a kind whose calls are all counted. The close executes no fence.
#[test]
fn loom_counted_call_vs_close_without_fence() {
    model(|| {
        let world = World::new(2);
        let handle = world.add(1);
        let call = thread::spawn({
            let world = Arc::clone(&world);
            move || world.look_counted(handle)
        });
        let closed = world.close_without_fence(handle);
        let seen = call.join().unwrap();
        assert!(
            matches!(closed, Ok(101) | Err(Refusal::InUse)),
            "{closed:?}"
        );
        assert!(is_told(seen), "{seen:?}");
        let again = world.close_without_fence(handle);
        assert_eq!(again.is_ok(), closed.is_err(), "{again:?}");
    });
}

/// A use that `again` has counted keeps the object in place, even after the first use has ended.
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
                // SAFETY: loom checks that no thread changes the object.
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

/// Two threads close one handle: exactly one of them succeeds.
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

/// Two closes race with the end of a counted call: one succeeds, or the handle stays open.
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
        // SAFETY: loom checks that no thread changes the object.
        assert_eq!(counted.0.with(|whose| unsafe { *whose }), 1);
        drop(counted);
        let results = [world.close(handle), other.join().unwrap()];
        let nr = results.iter().filter(|result| **result == Ok(101)).count();
        assert!(nr <= 1, "{results:?}");
        assert_eq!(world.close(handle).is_ok(), nr == 0, "{results:?}");
    });
}

/// A close changes the object, fails, and puts it back, as for a file whose last writes fail. A
/// concurrent call is refused, or uses the object as it was before or after the close.
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

/// Two threads close, change the object and put it back. At least one succeeds; no change is lost.
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

/// A published call with a stale handle does not get the current object of the slot.
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

/// A counted call with a stale handle may briefly make a close of the current handle fail.
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

/// A thread that gets a handle without synchronization finds its object present.
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
        // The other thread may use `next` before this call returns it: a C program may load the
        // handle from a variable that is concurrently overwritten.
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

/// A call during another call, for example from a callback, is not published, and the outer call
/// stays published until the inner one has returned.
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
                // SAFETY: loom checks that no thread changes the object.
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

/// A thread closes the first handle of two calls, and finds the second one in the caller's hazard
/// slot: the first call's accesses happen before the close.
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

/// A hazard slot is assigned to two threads in turn: a closing thread misses the call of neither.
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

/// Concurrent threads have different hazard slots, and no more are assigned than exist.
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

/// A call panics during a close: the handle is dead or closed, and a dead one can be closed.
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
