//! Lanes: an engine's operation under the clock.
//!
//! The loop around an operation is compiled for each engine, and is the same
//! code for all. The clock is read once a batch; batches are grown until reading
//! it takes less than a hundredth of the time.

use super::clock;

/// An operation that can be repeated.
pub(in crate::bench) trait Op: Send {
    /// Does it so many times; the error says what was not as expected.
    ///
    /// Implementations are not to be inlined, so that the warm-up and the counted
    /// part run the same machine code.
    fn batch(&mut self, times: u32) -> Result<(), String>;

    /// How many operations one time is.
    fn size(&self) -> u64 {
        1
    }
}

impl<O: Op + ?Sized> Op for &mut O {
    fn batch(&mut self, times: u32) -> Result<(), String> {
        (**self).batch(times)
    }

    fn size(&self) -> u64 {
        (**self).size()
    }
}

/// When a slice starts, and how long its two parts are.
pub(in crate::bench) struct Span {
    pub(super) start_ns: u64,
    pub(super) warm_ns: u64,
    pub(super) slice_ns: u64,
}

/// What one worker did in one slice.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::bench) struct Tally {
    pub(super) ops: u64,
    pub(super) ns: u64,
    /// Processor time of the whole process meanwhile; 0 where it was not asked for.
    pub(super) cpu_ns: u64,
}

impl Tally {
    pub(super) fn per_second(&self) -> f64 {
        // At least one batch was run, but the clock may not have moved.
        self.ops as f64 * 1e9 / self.ns.max(1) as f64
    }

    /// How many processors the process kept busy.
    pub(super) fn nr_busy(&self) -> f64 {
        self.cpu_ns as f64 / self.ns.max(1) as f64
    }
}

/// One engine of one worker.
pub(in crate::bench) trait Lane: Send {
    /// Runs one slice.
    fn run(&mut self, span: &Span) -> Result<Tally, String>;
}

/// The lane of an operation.
pub(in crate::bench) struct Timed<O> {
    op: O,
    /// Operations between two looks at the clock.
    batch: u32,
    /// How many times a slice does the operation at the least.
    least: u64,
    cpu_time: CpuTime,
}

/// Whether the processor time of the process is measured too: two system calls a slice.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum CpuTime {
    Unasked,
    Measured,
}

impl CpuTime {
    fn now_ns(self) -> u64 {
        match self {
            CpuTime::Unasked => 0,
            CpuTime::Measured => clock::process_cpu_ns(),
        }
    }
}

impl<O: Op> Timed<O> {
    pub(in crate::bench) fn new(op: O) -> Timed<O> {
        Timed {
            op,
            batch: 1,
            least: 1,
            cpu_time: CpuTime::Unasked,
        }
    }

    /// As [`new`](Timed::new), with the processor time of the whole process.
    pub(in crate::bench) fn with_cpu_time(op: O) -> Timed<O> {
        Timed {
            cpu_time: CpuTime::Measured,
            ..Timed::new(op)
        }
    }

    /// As [`new`](Timed::new), for slices that last until it was done so many times.
    pub(in crate::bench) fn at_least(op: O, times: u64) -> Timed<O> {
        Timed {
            least: times,
            ..Timed::new(op)
        }
    }

    /// Runs until `end_ns` and fits the batch to the operation's speed; the time
    /// after it.
    fn warm_up(&mut self, end_ns: u64) -> Result<u64, String> {
        let mut before = clock::now_ns();
        loop {
            self.op.batch(self.batch)?;
            let now = clock::now_ns();
            let took = now.saturating_sub(before);
            if took < BATCH_NS && self.batch < LARGEST_BATCH {
                self.batch *= 2;
            } else if took > 4 * BATCH_NS && self.batch > 1 {
                self.batch /= 2;
            }
            if now >= end_ns {
                return Ok(now);
            }
            before = now;
        }
    }
}

/// Reading the clock takes 20 to 50 ns where the kernel maps it into the
/// process: this is a few hundred times as much.
const BATCH_NS: u64 = 10_000;
const LARGEST_BATCH: u32 = 1 << 20;

impl<O: Op> Lane for Timed<O> {
    fn run(&mut self, span: &Span) -> Result<Tally, String> {
        let begin = self.warm_up(span.start_ns + span.warm_ns)?;
        // Workers that share a processor may come late; they still do a batch.
        let end = span.start_ns + span.warm_ns + span.slice_ns;
        let cpu_begin = self.cpu_time.now_ns();
        let mut times = 0;
        loop {
            self.op.batch(self.batch)?;
            times += u64::from(self.batch);
            let now = clock::now_ns();
            if now >= end && times >= self.least {
                return Ok(Tally {
                    ops: times * self.op.size(),
                    ns: now.saturating_sub(begin),
                    cpu_ns: self.cpu_time.now_ns().saturating_sub(cpu_begin),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counter {
        done: u64,
        fails_at: u64,
    }

    impl Op for Counter {
        fn batch(&mut self, times: u32) -> Result<(), String> {
            for _ in 0..times {
                self.done += 1;
                if self.done == self.fails_at {
                    return Err("that one".to_owned());
                }
                std::hint::black_box(&mut self.done);
            }
            Ok(())
        }
    }

    fn span() -> Span {
        Span {
            start_ns: clock::now_ns(),
            warm_ns: 1_000_000,
            slice_ns: 2_000_000,
        }
    }

    #[test]
    fn a_slice_lasts_as_long_as_asked_and_grows_its_batch() {
        let mut lane = Timed::new(Counter {
            done: 0,
            fails_at: 0,
        });
        let tally = lane.run(&span()).unwrap();
        assert!(tally.ops > 0 && tally.ops < lane.op.done);
        assert!(lane.batch > 1);
    }

    #[test]
    fn a_slice_lasts_until_the_least_number_of_times_is_done() {
        let counter = Counter {
            done: 0,
            fails_at: 0,
        };
        let tally = Timed::at_least(counter, 5_000_000).run(&Span {
            start_ns: 0,
            warm_ns: 0,
            slice_ns: 0,
        });
        assert!(tally.unwrap().ops >= 5_000_000);
    }

    #[test]
    fn a_late_worker_still_counts_something() {
        let mut lane = Timed::new(Counter {
            done: 0,
            fails_at: 0,
        });
        let tally = lane
            .run(&Span {
                start_ns: 0,
                warm_ns: 0,
                slice_ns: 0,
            })
            .unwrap();
        assert!(tally.ops >= 1);
        assert!(tally.per_second() > 0.0);
    }

    #[test]
    fn the_processor_time_is_that_of_the_process_and_only_where_it_was_asked_for() {
        let counter = || Counter {
            done: 0,
            fails_at: 0,
        };
        assert_eq!(Timed::new(counter()).run(&span()).unwrap().cpu_ns, 0);
        // A system that counts processor time in ticks may count none in a slice; a tick is at most 10 ms.
        let mut lane = Timed::with_cpu_time(counter());
        let mut slices = (0..1000).map(|_| lane.run(&span()).unwrap());
        let tally = slices.find(|tally| tally.cpu_ns > 0);
        assert!(tally.unwrap().nr_busy() > 0.0);
    }

    #[test]
    fn an_operation_that_fails_ends_the_slice() {
        let mut lane = Timed::new(Counter {
            done: 0,
            fails_at: 1000,
        });
        assert_eq!(lane.run(&span()).unwrap_err(), "that one");
    }
}
