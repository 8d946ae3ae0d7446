//! Counts, per-thread values and racy bytes by themselves: misused, they panic, refuse or wait, and count right afterwards.

#![forbid(unsafe_code)]

use std::mem::MaybeUninit;
use std::num::NonZeroU8;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU32;

use pagewell::baseline::CasLoop;
use pagewell::frame::{FrameKind, FramePool, Order, PoolConfig};
use pagewell::refcount::{LockBit, RefCount, RefScheme};
use pagewell_sync::asymmetric::Fences;
use pagewell_sync::bytes::{RacySource, portable};
use pagewell_sync::per_thread::{PerThread, Reach};

fn panics<R>(call: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(call)).is_err()
}

fn a_count_of_ones_own_is_misused<S: RefScheme>() {
    let word = AtomicU32::new(0);
    let count = RefCount::<S>::from_atomic(&word);
    count.set(1);
    assert!(panics(|| count.sub_and_test(0)) && panics(|| count.sub_and_test(u32::MAX)));
    assert!(panics(|| count.set(0)) && panics(|| count.freeze(0)));
    assert!(count.try_add(NonZeroU8::MAX).is_taken());
    assert_eq!(count.count(), 256);
    assert!(!count.free_if_unique());
    assert!(!count.sub_and_test(255).is_last());
    assert!(count.put().is_last());
    assert!(panics(|| count.put()) && count.is_locked());
}

#[test]
fn counts_of_ones_own_are_misused() {
    a_count_of_ones_own_is_misused::<LockBit>();
    a_count_of_ones_own_is_misused::<CasLoop>();
}

#[test]
fn copies_stay_within_both_sides() {
    let pool: FramePool = FramePool::new(&PoolConfig::new(64)).unwrap();
    let block = pool.alloc(Order::ZERO).unwrap();
    let bytes = block.bytes();
    bytes.copy_from(0, &[7; 4096]);
    let source = RacySource::from(bytes);
    let mut buf = [0; 4096];
    for (off, len) in [(0, 4097), (1, 4096), (4096, 1), (4097, 0), (usize::MAX, 1)] {
        assert!(panics(|| source.slice(off, len)));
        assert!(panics(|| bytes.slice(off, len)));
        assert!(panics(|| bytes.zero(off, len)));
        if let Some(src) = [1; 4097].get(..len) {
            let mut dst = vec![0; len];
            assert!(panics(|| source.copy_to(off, &mut dst)));
            assert!(panics(|| bytes.copy_to(off, &mut dst)));
            assert!(panics(|| bytes.copy_from(off, src)));
        }
    }
    assert!(panics(|| bytes.slice(0, 8).copy_from_racy(0, source)));
    assert!(panics(|| bytes.copy_from_racy(1, source)));
    assert!(panics(|| portable::copy_in(bytes.slice(0, 8), &[1; 9])));
    assert!(panics(|| {
        portable::copy_out(bytes.slice(0, 8), &mut [MaybeUninit::new(0); 7]);
    }));
    source.copy_to(0, &mut buf);
    assert_eq!(buf, [7; 4096]);
    assert!(source.slice(4096, 0).is_empty());
}

#[test]
fn a_value_is_in_one_hand_at_a_time_whatever_is_forgotten() {
    let values = PerThread::new(8, Fences::new(), || 0_u32);
    assert_eq!(
        values.with_mine(|value| {
            *value += 1;
            *value
        }),
        Some(1)
    );
    // Again from within: none, rather than the same once more.
    let inner = values.with_mine(|value| {
        *value += 1;
        let again = values.with_mine(|_| ());
        let all = values.with_all(|values, reach| (values.len(), reach));
        (again, all, values.try_enter().is_none())
    });
    assert_eq!(inner, Some((None, (0, Reach::Own), true)));
    let inner = values.with_all(|_, _| (values.with_mine(|_| ()), values.with_all(|v, _| v.len())));
    assert_eq!(inner, (None, 0));
    // A panic at work lets go.
    assert!(panics(|| values.with_mine(|_| panic!("at work"))));
    assert!(panics(|| values.with_all(|_, _| panic!("visiting"))));
    assert_eq!(values.with_mine(|value| *value), Some(2));
    // Forgotten at work: this thread has no value any more, and neither has who gets its number.
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                std::mem::forget(values.try_enter());
                assert_eq!(values.with_mine(|_| ()), None);
            })
            .join()
            .unwrap();
    });
    assert_eq!(values.with_mine(|value| *value), Some(2));
}

#[test]
fn every_kind_of_a_block_without_an_owner_is_told() {
    let pool: FramePool = FramePool::new(&PoolConfig::new(64)).unwrap();
    let block = pool.alloc(Order::ZERO).unwrap();
    assert_eq!(
        pool.meta(block.frame()).kind(),
        (FrameKind::Owned, Order::ZERO)
    );
    let range = block.split();
    let frame = range.first();
    assert_eq!(pool.meta(frame).kind().0, FrameKind::Raw);
    drop(range);
    assert_ne!(pool.meta(frame).kind().0, FrameKind::Raw);
    assert!(pool.meta(frame).count() == 0);
}
