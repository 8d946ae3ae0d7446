//! Loom models of the races of pins. They also check that no thread uses a pin while another thread
//! ends it. The documentation of `pins` names the mutants, that of `handles` has the command.

// Not loom's `Arc`: sharing of the slots is not part of the model.
use std::sync::Arc;

use loom::cell::UnsafeCell as Watched;
use loom::model::Builder;
use loom::thread;

use crate::pin_slots::{Lists, Slot};

struct File(Watched<u32>);

struct Pin(Arc<File>);

impl Pin {
    fn end(self) {
        // SAFETY: loom checks that no thread changes the file.
        self.0.0.with(|value| assert_eq!(unsafe { *value }, 1));
    }
}

const FILE: u64 = 7;
const OTHER: u64 = 8;

struct World {
    slots: Vec<&'static Slot<Pin>>,
    lists: Lists<Pin>,
    file: Arc<File>,
    other: Arc<File>,
}

impl World {
    /// Creates `nr` slots on the list of thread 0.
    fn new(nr: usize) -> Arc<Self> {
        let file = || Arc::new(File(Watched::new(1)));
        let slots: Vec<&'static Slot<Pin>> = (1..=nr)
            .map(|number| &*Box::leak(Box::new(Slot::new(0, number))))
            .collect();
        let lists = Lists::new();
        for slot in slots.iter().rev() {
            lists.put(slot);
        }
        Arc::new(Self {
            slots,
            lists,
            file: file(),
            other: file(),
        })
    }

    fn pin(&self, handle: u64) -> Option<[u64; 2]> {
        if self.lists.first().is_none() {
            self.lists.take_over();
        }
        let slot = self.lists.first()?;
        self.lists.take_off(slot);
        let file = match handle {
            FILE => &self.file,
            _ => &self.other,
        };
        // SAFETY: (a) the slot was taken off the list.
        Some(unsafe { slot.fill(handle, Pin(Arc::clone(file))) })
    }

    /// Ends a pin on this thread. Returns whether there was one.
    fn unpin(&self, [number, serial]: [u64; 2], me: usize) -> bool {
        let slot = self.slots[number as usize - 1];
        let ended = slot.empty(serial, Pin::end);
        match ended {
            false => {}
            true if slot.owner() == me => self.lists.put(slot),
            true => self.lists.give(slot),
        }
        ended
    }

    /// Closes the file, with which no call is in progress, unless it is pinned.
    fn close(&self) -> bool {
        let is_pinned = self.slots.iter().any(|slot| slot.is_of(FILE));
        if !is_pinned {
            // SAFETY: loom checks that no other thread uses the file.
            self.file.0.with_mut(|value| unsafe { *value = 2 });
        }
        !is_pinned
    }
}

fn model(work: impl Fn() + Sync + Send + 'static) {
    let mut model = Builder::new();
    // Exhaustive within this bound. Without a bound, some models take minutes.
    model.preemption_bound = model.preemption_bound.or(Some(3));
    model.check(work);
}

/// Two threads release one pin: exactly one of them succeeds.
#[test]
fn loom_unpin_vs_unpin() {
    model(|| {
        let world = World::new(1);
        let pin = world.pin(FILE).unwrap();
        let other = thread::spawn({
            let world = Arc::clone(&world);
            move || world.unpin(pin, 1)
        });
        let nr = u32::from(world.unpin(pin, 0)) + u32::from(other.join().unwrap());
        assert_eq!(nr, 1);
        assert!(!world.unpin(pin, 0));
        let again = world.pin(FILE).unwrap();
        assert_ne!(again, pin);
        assert!(world.unpin(again, 0));
    });
}

#[test]
fn loom_unpin_vs_close() {
    model(|| {
        let world = World::new(1);
        let pin = world.pin(FILE).unwrap();
        let other = thread::spawn({
            let world = Arc::clone(&world);
            move || world.unpin(pin, 1)
        });
        let is_closed = world.close();
        assert!(other.join().unwrap());
        assert!(is_closed || world.close());
    });
}

/// A closing thread may find a pin of another file in the slot of the last pin of its file.
#[test]
fn loom_pin_of_another_file_vs_close() {
    model(|| {
        let world = World::new(1);
        let pin = world.pin(FILE).unwrap();
        let owner = thread::spawn({
            let world = Arc::clone(&world);
            move || {
                assert!(world.unpin(pin, 0));
                let pin = world.pin(OTHER).unwrap();
                assert!(world.unpin(pin, 0));
            }
        });
        let is_closed = world.close();
        owner.join().unwrap();
        assert!(is_closed || world.close());
    });
}

/// Another thread releases a pin, while the slot's owner takes the slot again, if it can.
#[test]
fn loom_unpin_elsewhere_vs_pin() {
    model(|| {
        let world = World::new(2);
        let pins = [world.pin(FILE).unwrap(), world.pin(FILE).unwrap()];
        assert!(world.pin(FILE).is_none());
        let others = pins.map(|pin| {
            let world = Arc::clone(&world);
            thread::spawn(move || assert!(world.unpin(pin, 1)))
        });
        let early = world.pin(OTHER);
        for other in others {
            other.join().unwrap();
        }
        // Each of the two slots is found once.
        let mut live: Vec<[u64; 2]> = early.into_iter().collect();
        while let Some(pin) = world.pin(OTHER) {
            live.push(pin);
        }
        assert_eq!(live.len(), 2);
        assert_ne!(live[0][0], live[1][0]);
        for pin in live {
            assert!(world.unpin(pin, 0));
        }
    });
}
