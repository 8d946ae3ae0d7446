//! Models of the races of [`PerThread`], explored exhaustively by loom, which also checks that nobody uses
//! a value while somebody else does.
//!
//! `cd models && cargo test --profile loom -p pagewell-sync --test loom_per_thread`
//!
//! What breaks them is in `verify/mutants` (`owner-without-fence` and others).

#![cfg(loom)]

// Not loom's: who shares the values is no part of the model.
use std::sync::Arc;

use loom::thread;
use pagewell_sync::asymmetric::Fences;
use pagewell_sync::per_thread::PerThread;

/// Two values, 0 at first.
fn two() -> Arc<PerThread<u32>> {
    Arc::new(PerThread::new(2, Fences::new(), || 0))
}

/// Adds one to this thread's value, which it has.
fn count(values: &PerThread<u32>) {
    let counted = values.with_mine(|value| *value += 1);
    assert_eq!(counted, Some(()));
}

/// The sum of all values.
fn sum(values: &PerThread<u32>) -> u32 {
    values.with_all(|all, _| all.iter().map(|value| **value).sum())
}

/// An owner is at work while a visitor comes: neither uses the value while the other does, and the visitor
/// sees all or nothing of the owner's work.
#[test]
fn loom_owner_vs_visitor() {
    loom::model(|| {
        let values = two();
        let other = thread::spawn({
            let values = Arc::clone(&values);
            move || {
                count(&values);
                count(&values);
            }
        });
        let seen = sum(&values);
        assert!(seen <= 2);
        other.join().unwrap();
        assert_eq!(sum(&values), 2);
    });
}

/// A visitor takes away what the owner has put there; what it took is there once.
#[test]
fn loom_visitor_takes() {
    loom::model(|| {
        let values = two();
        let owner = thread::spawn({
            let values = Arc::clone(&values);
            move || {
                count(&values);
                values.with_mine(std::mem::take).unwrap()
            }
        });
        let taken: u32 =
            values.with_all(|all, _| all.iter_mut().map(|value| std::mem::take(*value)).sum());
        let kept = owner.join().unwrap();
        assert_eq!(taken + kept + sum(&values), 1);
    });
}

/// Two visitors and an owner.
#[test]
fn loom_visitor_vs_visitor() {
    let mut model = loom::model::Builder::new();
    // Exhaustive within the bound; without one it takes hours.
    model.preemption_bound = model.preemption_bound.or(Some(2));
    model.check(|| {
        let values = two();
        /// Adds ten to each value that there is; says how much that was.
        fn add(values: &PerThread<u32>) -> u32 {
            values.with_all(|all, _| {
                all.iter_mut().for_each(|value| **value += 10);
                10 * all.len() as u32
            })
        }
        let visitor = thread::spawn({
            let values = Arc::clone(&values);
            move || add(&values)
        });
        count(&values);
        let added = add(&values) + visitor.join().unwrap();
        assert_eq!(sum(&values), 1 + added);
    });
}
