//! The gate: where workers meet before a slice.
//!
//! A barrier that spins, since a worker that sleeps would be woken late, in
//! words that processes can share, with a way out when a worker is gone.
//!
//! # Protocol
//!
//! 1. Every worker reads the gate's generation and then counts itself in, unless
//!    the gate is abandoned: then it fails, the last worker too.
//! 2. The last one resets the count, writes the start, and moves the generation.
//! 3. The others wait until the generation has moved, and read the start. They
//!    fail if the gate is abandoned before.
//!
//! The next generation cannot begin before all have left this one: each worker
//! counts itself in again only after it has read the start.
//!
//! # Ordering edges
//!
//! - E1. Counting in (release) to the last worker's counting (acquire): what the
//!   workers did in the last slice happens before the next one.
//! - E2. The move of the generation (release) to those that see it (acquire):
//!   publishes the reset count, the start, and what E1 has gathered.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::clock;

/// A worker has stopped early, so that the others shall stop too.
#[derive(Debug)]
pub(super) struct Abandoned;

/// Where the workers of a crew meet. Zeroed memory is a new gate.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub(super) struct Gate {
    arrived: AtomicU32,
    generation: AtomicU32,
    abandoned: AtomicU32,
    start_ns: AtomicU64,
}

/// How often a worker looks before it gives its processor away at each look.
const SPINS: u32 = 2000;

impl Gate {
    /// Waits until all of `crew` workers are here; the time at which that was.
    pub(super) fn meet(&self, crew: u32) -> Result<u64, Abandoned> {
        // ORDERING: Relaxed; this worker has seen every earlier generation, and
        // the next one needs its own arrival.
        let generation = self.generation.load(Ordering::Relaxed);
        // The last worker does not wait (nor does one that is alone), so that only this check
        // stops it. A worker that passes it before the gate is abandoned works one more slice.
        self.go_on()?;
        // ORDERING: AcqRel, both ends of E1.
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == crew {
            // ORDERING: Relaxed, both; published by the generation below (E2).
            self.arrived.store(0, Ordering::Relaxed);
            self.start_ns.store(clock::now_ns(), Ordering::Relaxed);
            // ORDERING: Release, E2.
            self.generation
                .store(generation.wrapping_add(1), Ordering::Release);
        } else {
            self.wait(generation)?;
        }
        // ORDERING: Relaxed; after E2, and not written before this worker is back.
        Ok(self.start_ns.load(Ordering::Relaxed))
    }

    fn wait(&self, generation: u32) -> Result<(), Abandoned> {
        let mut looks = 0;
        // ORDERING: Acquire, E2.
        while self.generation.load(Ordering::Acquire) == generation {
            self.go_on()?;
            if looks < SPINS {
                looks += 1;
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    /// Fails if the gate is abandoned.
    fn go_on(&self) -> Result<(), Abandoned> {
        // ORDERING: Relaxed; publishes nothing but itself.
        match self.abandoned.load(Ordering::Relaxed) {
            0 => Ok(()),
            _ => Err(Abandoned),
        }
    }

    /// Tells all workers to stop waiting.
    pub(super) fn abandon(&self) {
        // ORDERING: Relaxed; publishes nothing but itself.
        self.abandoned.store(1, Ordering::Relaxed);
    }

    /// Abandons the gate when dropped, also by a panic, unless all was well.
    pub(super) fn watch(&self) -> Watch<'_> {
        Watch { gate: self }
    }
}

/// See [`Gate::watch`].
pub(super) struct Watch<'a> {
    gate: &'a Gate,
}

impl Watch<'_> {
    /// The worker is through.
    pub(super) fn all_is_well(self) {
        std::mem::forget(self);
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.gate.abandon();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_workers_get_the_same_start_each_time() {
        let gate = Gate::default();
        let meet = || -> Vec<u64> { (0..100).map(|_| gate.meet(3).unwrap()).collect() };
        let starts = std::thread::scope(|scope| {
            [scope.spawn(meet), scope.spawn(meet), scope.spawn(meet)]
                .map(|worker| worker.join().unwrap())
        });
        assert_eq!(starts[0], starts[1]);
        assert_eq!(starts[0], starts[2]);
        assert!(starts[0].is_sorted());
    }

    #[test]
    fn nobody_waits_for_a_worker_that_panicked() {
        let gate = Gate::default();
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| {
                let watch = gate.watch();
                let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    let _watch = watch;
                    std::panic::resume_unwind(Box::new("a worker's bug"));
                }));
                assert!(panicked.is_err());
            });
            scope.spawn(|| gate.meet(2)).join()
        });
        assert!(outcome.unwrap().is_err());
    }
}
