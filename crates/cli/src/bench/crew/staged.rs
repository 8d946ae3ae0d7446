//! Lanes of operations that need a stage: it is set up before each and cleared after it, and only the
//! operation between the two is timed.

use super::clock;
use super::lane::{Lane, Span, Tally};

/// An operation that uses up what it works on. The errors say what was not as expected.
pub(in crate::bench) trait StagedOp: Send {
    /// Makes what [`act`](StagedOp::act) works on.
    fn set_up(&mut self) -> Result<(), String>;

    /// The part that is timed. It should take some microseconds: the clock is read once before it and
    /// once after it.
    fn act(&mut self) -> Result<(), String>;

    /// Clears away what `act` leaves.
    fn clear(&mut self) -> Result<(), String>;

    /// How many operations one `act` is.
    fn size(&self) -> u64;
}

/// The lane of a staged operation.
pub(in crate::bench) struct Staged<O>(pub(in crate::bench) O);

impl<O: StagedOp> Staged<O> {
    /// Runs until `end_ns`, at least once.
    fn run_until(&mut self, end_ns: u64) -> Result<Tally, String> {
        let Staged(op) = self;
        let mut tally = Tally::default();
        loop {
            op.set_up()?;
            let begin = clock::now_ns();
            op.act()?;
            let end = clock::now_ns();
            op.clear()?;
            tally.ns += end.saturating_sub(begin);
            tally.ops += op.size();
            if end >= end_ns {
                return Ok(tally);
            }
        }
    }
}

impl<O: StagedOp> Lane for Staged<O> {
    fn run(&mut self, span: &Span) -> Result<Tally, String> {
        let begin = span.start_ns + span.warm_ns;
        self.run_until(begin)?;
        self.run_until(begin + span.slice_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const SET_UP: Duration = Duration::from_millis(5);

    /// Takes long before what is timed.
    struct Slow {
        is_set_up: bool,
        nr_set_ups: u32,
    }

    impl StagedOp for Slow {
        fn set_up(&mut self) -> Result<(), String> {
            std::thread::sleep(SET_UP);
            self.is_set_up = true;
            self.nr_set_ups += 1;
            Ok(())
        }

        fn act(&mut self) -> Result<(), String> {
            assert!(self.is_set_up);
            Ok(())
        }

        fn clear(&mut self) -> Result<(), String> {
            self.is_set_up = false;
            Ok(())
        }

        fn size(&self) -> u64 {
            3
        }
    }

    #[test]
    fn only_the_operation_is_timed() {
        let mut lane = Staged(Slow {
            is_set_up: false,
            nr_set_ups: 0,
        });
        let begin = clock::now_ns();
        let tally = lane
            .run(&Span {
                start_ns: begin,
                warm_ns: 0,
                slice_ns: 1_000_000,
            })
            .unwrap();
        let all = clock::now_ns() - begin;
        // However slow the machine is, and whenever it takes the processor away.
        let set_up = clock::to_ns(SET_UP * lane.0.nr_set_ups);
        assert_eq!(tally.ops, 3);
        assert!(tally.ns + set_up <= all, "{tally:?}, {set_up} of {all} ns");
    }
}
