//! `bench refcount`: what it costs to take and drop a reference.
//!
//! An operation is a pair, `try_get` and `put`. Every count starts at 1, so that
//! no put is ever the last one, and has to be back at 1 in the end.

use std::hint::black_box;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};

use pagewell::baseline::{AssumeOne, CasLoop};
use pagewell::refcount::{LockBit, RefCount, RefScheme};

use crate::bench::crew::{
    Lane, Op, Padded, Schedule, Speeds, Timed, Watch, run_processes, run_threads,
};
use crate::bench::plan::{Case, Cell};
use crate::failure::Failure;

/// The engines, in the order of their lanes.
pub(in crate::bench) const ENGINES: [&str; 4] =
    [LockBit::NAME, CasLoop::NAME, "bare", AssumeOne::NAME];

/// Which engine is compared with which.
pub(in crate::bench) const RATIOS: [(&str, &str); 3] = [
    (LockBit::NAME, CasLoop::NAME),
    (LockBit::NAME, "bare"),
    (AssumeOne::NAME, CasLoop::NAME),
];

/// One line each, for people.
pub(in crate::bench) const LEGEND: [(&str, &str); 4] = [
    (
        LockBit::NAME,
        "try_get and put of Pagewell's reference count: one fetch-and-add each",
    ),
    (
        CasLoop::NAME,
        "the baseline: try_get adds unless zero, in a compare-and-swap loop",
    ),
    (
        "bare",
        "one fetch_add(1) and one fetch_sub(1) with the same orderings, and no rules",
    ),
    (
        AssumeOne::NAME,
        "the baseline without its load: the first compare-and-swap expects a count of 1",
    ),
];

/// Measures a cell.
pub(in crate::bench) fn run(
    cell: &Cell,
    schedule: &Schedule,
    cpus: &[usize],
    watch: Watch<'_>,
) -> Result<Speeds, Failure> {
    if cell.case == Case::OneCountProcesses {
        return run_processes(schedule, cpus, cell.threads, prepare, check, watch);
    }
    let nr_counts = match cell.case {
        Case::OwnCount => cell.threads as usize,
        _ => 1,
    };
    let counts: Vec<[Padded<AtomicU32>; ENGINES.len()]> =
        (0..nr_counts).map(|_| Default::default()).collect();
    let words: Vec<[&AtomicU32; ENGINES.len()]> = counts
        .iter()
        .map(|counts| counts.each_ref().map(|count| &count.0))
        .collect();
    words.iter().for_each(prepare);
    let workers = (0..cell.threads as usize)
        .map(|worker| lanes(words[worker % nr_counts]))
        .collect();
    let speeds = run_threads(schedule, cpus, workers, watch)?;
    words.iter().try_for_each(check)?;
    Ok(speeds)
}

/// One lane for each engine, on these counts.
pub(in crate::bench) fn lanes<'a>(
    counts: [&'a AtomicU32; ENGINES.len()],
) -> Vec<Box<dyn Lane + 'a>> {
    let [lock_bit, cas_loop, bare, assume_one] = counts;
    vec![
        Box::new(Timed::new(Pair::<Counted<LockBit>>::on(lock_bit))),
        Box::new(Timed::new(Pair::<Counted<CasLoop>>::on(cas_loop))),
        Box::new(Timed::new(Pair::<Bare>::on(bare))),
        Box::new(Timed::new(Pair::<Counted<AssumeOne>>::on(assume_one))),
    ]
}

fn prepare(counts: &[&AtomicU32; ENGINES.len()]) {
    for count in counts {
        // ORDERING: Relaxed; the workers start later, which orders.
        count.store(1, Ordering::Relaxed);
    }
}

fn check(counts: &[&AtomicU32; ENGINES.len()]) -> Result<(), String> {
    for (engine, count) in ENGINES.iter().zip(counts) {
        // ORDERING: Relaxed; the workers have ended, which orders.
        let count = count.load(Ordering::Relaxed);
        if count != 1 {
            return Err(format!(
                "{engine} has lost its count: {count:#x} instead of 1 after all references were \
                 dropped"
            ));
        }
    }
    Ok(())
}

/// Takes and drops one reference.
trait Engine: Send {
    /// Whether the reference was got, and was not the last.
    fn pair(count: &AtomicU32) -> bool;
}

/// The library's count, in one of its schemes.
struct Counted<S>(PhantomData<S>);

impl<S: RefScheme> Engine for Counted<S> {
    #[inline(always)]
    fn pair(count: &AtomicU32) -> bool {
        let count = RefCount::<S>::from_atomic(count);
        count.try_get().is_taken() && !count.put().is_last()
    }
}

/// The two additions alone. What they fetch is used once: were it not used at all,
/// the compiler would make additions of them that fetch nothing, with which nobody
/// can count references.
struct Bare;

impl Engine for Bare {
    #[inline(always)]
    fn pair(count: &AtomicU32) -> bool {
        // ORDERING: Acquire and Release, as the library's `try_get` and `put`; here
        // there is nothing to publish.
        let before = count.fetch_add(1, Ordering::Acquire);
        let after = count.fetch_sub(1, Ordering::Release);
        before | after != 0
    }
}

struct Pair<'a, E> {
    count: &'a AtomicU32,
    engine: PhantomData<E>,
}

impl<'a, E> Pair<'a, E> {
    fn on(count: &'a AtomicU32) -> Pair<'a, E> {
        Pair {
            count,
            engine: PhantomData,
        }
    }
}

impl<E: Engine> Op for Pair<'_, E> {
    #[inline(never)]
    fn batch(&mut self, times: u32) -> Result<(), String> {
        let count = black_box(self.count);
        for _ in 0..times {
            if !E::pair(count) {
                return Err("a reference to a live page was refused, or was the last".to_owned());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_gives_back_what_it_takes() {
        let counts: [AtomicU32; ENGINES.len()] = Default::default();
        let words = counts.each_ref();
        prepare(&words);
        assert_eq!(Pair::<Counted<LockBit>>::on(words[0]).batch(10), Ok(()));
        assert_eq!(Pair::<Counted<CasLoop>>::on(words[1]).batch(10), Ok(()));
        assert_eq!(Pair::<Bare>::on(words[2]).batch(10), Ok(()));
        assert_eq!(Pair::<Counted<AssumeOne>>::on(words[3]).batch(10), Ok(()));
        assert_eq!(check(&words), Ok(()));
    }

    #[test]
    fn a_lost_count_is_noticed() {
        let counts: [AtomicU32; ENGINES.len()] = Default::default();
        let words = counts.each_ref();
        prepare(&words);
        words[1].store(2, Ordering::Relaxed);
        assert!(check(&words).unwrap_err().contains(CasLoop::NAME));
    }
}
