//! A ring of numbers from one thread to another.
//!
//! Of all engines the same, and cheap beside any of them: numbers go in groups, and each group moves one
//! position that the other side reads.
//!
//! # Ordering edges
//!
//! - E1. Moving `nr_sent` (release) to the receiver's look at it (acquire): publishes the numbers, and
//!   whatever was done to what they name.
//! - E2. Moving `nr_received` (release) to the sender's look at it (acquire): the slots were read, and may
//!   be written again.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::bench::crew::Padded;

/// The memory of a ring. Both counts only grow.
pub(super) struct Ring {
    slots: Box<[AtomicUsize]>,
    nr_sent: Padded<AtomicUsize>,
    nr_received: Padded<AtomicUsize>,
}

/// Its only sender.
pub(super) struct Sender<'a>(&'a Ring);

/// Its only receiver.
pub(super) struct Receiver<'a>(&'a Ring);

impl Ring {
    pub(super) fn new(capacity: usize) -> Ring {
        Ring {
            slots: (0..capacity).map(|_| AtomicUsize::new(0)).collect(),
            nr_sent: Padded::default(),
            nr_received: Padded::default(),
        }
    }

    /// Both ends; there are no others while these exist.
    pub(super) fn ends(&mut self) -> (Sender<'_>, Receiver<'_>) {
        (Sender(self), Receiver(self))
    }

    fn slot(&self, at: usize) -> &AtomicUsize {
        &self.slots[at % self.slots.len()]
    }
}

impl Sender<'_> {
    /// Sends all `numbers`, and empties the list; or none, if there is no room.
    pub(super) fn send(&mut self, numbers: &mut Vec<usize>) -> bool {
        let ring = self.0;
        // ORDERING: Relaxed; only this end writes it. Acquire, E2.
        let sent = ring.nr_sent.0.load(Ordering::Relaxed);
        let received = ring.nr_received.0.load(Ordering::Acquire);
        if sent.wrapping_sub(received) + numbers.len() > ring.slots.len() {
            return false;
        }
        for (at, number) in numbers.iter().enumerate() {
            // ORDERING: Relaxed; published by E1.
            ring.slot(sent.wrapping_add(at))
                .store(*number, Ordering::Relaxed);
        }
        // ORDERING: Release, E1.
        ring.nr_sent
            .0
            .store(sent.wrapping_add(numbers.len()), Ordering::Release);
        numbers.clear();
        true
    }
}

impl Receiver<'_> {
    /// Receives up to `most` numbers, and hands each to `take`; how many those were.
    pub(super) fn receive(&mut self, most: usize, mut take: impl FnMut(usize)) -> usize {
        let ring = self.0;
        // ORDERING: Relaxed; only this end writes it. Acquire, E1.
        let received = ring.nr_received.0.load(Ordering::Relaxed);
        let sent = ring.nr_sent.0.load(Ordering::Acquire);
        let nr = sent.wrapping_sub(received).min(most);
        for at in 0..nr {
            // ORDERING: Relaxed; ordered by E1.
            take(ring.slot(received.wrapping_add(at)).load(Ordering::Relaxed));
        }
        // ORDERING: Release, E2.
        ring.nr_received
            .0
            .store(received.wrapping_add(nr), Ordering::Release);
        nr
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_arrive_once_and_in_order() {
        let mut ring = Ring::new(8);
        let (mut sender, mut receiver) = ring.ends();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for first in (0..3000).step_by(3) {
                    let mut numbers = vec![first, first + 1, first + 2];
                    while !sender.send(&mut numbers) {
                        std::thread::yield_now();
                    }
                    assert!(numbers.is_empty());
                }
            });
            let mut expected = 0;
            while expected < 3000 {
                let nr = receiver.receive(5, |number| {
                    assert_eq!(number, expected);
                    expected += 1;
                });
                if nr == 0 {
                    std::thread::yield_now();
                }
            }
        });
    }

    #[test]
    fn a_full_ring_takes_nothing() {
        let mut ring = Ring::new(4);
        let (mut sender, mut receiver) = ring.ends();
        assert!(sender.send(&mut vec![1, 2, 3]));
        let mut more = vec![4, 5];
        assert!(!sender.send(&mut more));
        assert_eq!(more, [4, 5]);
        assert_eq!(receiver.receive(2, |_| {}), 2);
        assert!(sender.send(&mut more));
    }
}
