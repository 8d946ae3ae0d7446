use pagewell_frame::{Order, UniqueFrame};

use crate::supply::alloc::Allocator;
use crate::supply::out_of_frames::OutOfFrames;
use crate::supply::parts::Supply;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Charges<'s>(pub(crate) &'s Supply);

impl<'s> Charges<'s> {
    pub(crate) fn charge(self, bytes: usize) -> Result<(), OutOfFrames> {
        // Concurrent calls must not use each other's frames. Surplus frames are freed after the
        // budget's lock is released.
        let mut spare: Vec<UniqueFrame<'s>> = Vec::new();
        while !self.0.budget.try_charge(bytes, &mut spare) {
            let unique = Allocator(self.0).alloc(Order::ZERO)?;
            unique.discard();
            spare.push(unique);
        }
        Ok(())
    }

    /// As [`charge`](Self::charge), by [`Allocator::try_alloc`]. Charges nothing on `false`.
    pub(crate) fn try_charge(self, bytes: usize) -> bool {
        let mut spare: Vec<UniqueFrame<'s>> = Vec::new();
        while !self.0.budget.try_charge(bytes, &mut spare) {
            let Some(unique) = Allocator(self.0).try_alloc(Order::ZERO) else {
                return false;
            };
            unique.discard();
            spare.push(unique);
        }
        true
    }

    pub(crate) fn uncharge(self, bytes: usize) {
        if bytes != 0 {
            self.0.budget.uncharge(&self.0.claims, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supply::policy::Eviction;
    use pagewell_frame::{FramePool, PoolConfig};
    use pagewell_sync::parking::WaitTable;

    fn supply(nr_frames: usize) -> Supply {
        Supply::new(
            FramePool::new(&PoolConfig::new(nr_frames)).unwrap(),
            Eviction::default(),
            WaitTable::new(),
        )
    }

    #[test]
    fn charges_are_rounded_up_together_and_come_back() {
        let supply = supply(16);
        Charges(&supply).charge(100).unwrap();
        Charges(&supply).charge(100).unwrap();
        assert_eq!(supply.pool().stats().nr_available(), 15);
        Charges(&supply).charge(4096).unwrap();
        assert_eq!(supply.pool().stats().nr_available(), 14);
        Charges(&supply).uncharge(100);
        assert_eq!(supply.pool().stats().nr_available(), 14);
        Charges(&supply).uncharge(100);
        assert_eq!(supply.pool().stats().nr_available(), 15);
        Charges(&supply).uncharge(4096);
        assert_eq!(supply.pool().stats().nr_available(), 16);
        supply.pool().verify().unwrap();
    }

    #[test]
    fn a_charge_that_cannot_be_met_changes_nothing() {
        let supply = supply(16);
        Charges(&supply).charge(4096).unwrap();
        assert!(Charges(&supply).charge(16 * 4096).is_err());
        assert_eq!(supply.pool().stats().nr_available(), 15);
        Charges(&supply).uncharge(4096);
        assert_eq!(supply.pool().stats().nr_available(), 16);
    }

    /// Regression test: eight files opened concurrently each withheld a frame where one sufficed.
    #[test]
    fn charges_at_the_same_moment_withhold_no_more_than_one_after_the_other() {
        const THREADS: usize = 8;
        let supply = supply(64);
        let barrier = std::sync::Barrier::new(THREADS);
        for _ in 0..50 {
            std::thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        barrier.wait();
                        Charges(&supply).charge(100).unwrap();
                    });
                }
            });
            assert_eq!(supply.pool().stats().nr_available(), 63);
            Charges(&supply).uncharge(100 * THREADS);
            assert_eq!(supply.pool().stats().nr_available(), 64);
        }
        supply.pool().verify().unwrap();
    }
}
