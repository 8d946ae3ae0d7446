//! Choice of the variant for long copies, by one measurement per process.
//!
//! [`CHOSEN`] is the word that every long copy loads. The first long copy, or the first call of
//! `variant::choice`, measures; concurrent copies use the default.
//!
//! # The measurement
//!
//! Copies 4 KiB within the first-level cache, by each usable variant in turn: [`ROUNDS`] rounds of
//! [`COPIES`] copies each; the shortest round counts. A disturbance (an interrupt, another process,
//! a frequency that has not risen yet, the upper halves of registers not powered yet) only makes a
//! round longer. To change the result it would have to disturb all rounds of one variant and none
//! of another's. The measurement takes some 50 µs. [`Timings::choice`] decides.
//!
//! The destination begins 2112 bytes after the source modulo 4096. There no variant suffers false
//! dependencies.

use std::time::{Duration, Instant};

use super::super::variant::names::{Choice, Reason, Timings, Variant};
use super::long::{INLINE, copy_long_with};
use crate::atomic::{AtomicU32, Ordering};
use crate::{Mutex, MutexGuard, lock, try_lock};

/// Variant that long copies use: [`NONE`], or its code.
pub(super) static CHOSEN: AtomicU32 = AtomicU32::new(NONE);

/// No variant has been chosen.
pub(super) const NONE: u32 = 0;
pub(super) const SSE2: u32 = code_of(Variant::Sse2);
pub(super) const AVX: u32 = code_of(Variant::Avx);
pub(super) const AVX512: u32 = code_of(Variant::Avx512);
pub(super) const REP_MOVSB: u32 = code_of(Variant::RepMovsb);

/// The choice and its reason. Locked during the measurement.
static CHOICE: Mutex<Option<Choice>> = Mutex::new(None);

/// Memory of the measurement. Lock order: after [`CHOICE`].
static SCRATCH: Mutex<Scratch> = Mutex::new(Scratch([0; SCRATCH_BYTES]));

/// Length of a measured copy: a page.
const LENGTH: usize = 4096;
/// Offset of the destination in the scratch memory.
const TO: usize = LENGTH + 2112;
const SCRATCH_BYTES: usize = TO + LENGTH;

/// Copies timed together: enough that the clock's overhead and resolution, which are the same for
/// all variants, are at most a few percent of the time.
const COPIES: u32 = 32;
const ROUNDS: u32 = 10;

/// Static, so that a copy needs neither the heap nor a deep stack for it.
#[repr(align(4096))]
struct Scratch([u8; SCRATCH_BYTES]);

const fn code_of(variant: Variant) -> u32 {
    variant as u32 + 1
}

/// Variant of `code`, which must not be [`NONE`].
pub(super) fn variant_of(code: u32) -> Variant {
    Variant::ALL[code as usize - 1]
}

/// Variant in use until the measurement has ended.
fn default() -> Variant {
    if std::is_x86_feature_detected!("avx") {
        Variant::Avx
    } else {
        Variant::Sse2
    }
}

/// Returns the variant for a copy that found none chosen: measures now, or returns the default if
/// another thread holds [`CHOICE`].
///
/// It never waits, so a measurement by another thread does not block a child of `fork`.
#[cold]
#[inline(never)]
pub(super) fn first() -> Variant {
    match try_lock(&CHOICE) {
        Some(mut choice) => settled(&mut choice).variant,
        None => default(),
    }
}

/// Implements `variant::choice`.
pub(in super::super) fn choice() -> Choice {
    match patiently() {
        Some(mut choice) => settled(&mut choice),
        // The lock is never released in this process: measure without changing what copies use.
        None => measured(&mut Box::new(Scratch([0; SCRATCH_BYTES]))),
    }
}

/// Locks [`CHOICE`]. Returns `None` if its holder is not in this process: a child of a `fork`
/// during the measurement.
fn patiently() -> Option<MutexGuard<'static, Option<Choice>>> {
    /// 100 times the duration of a measurement on a heavily loaded machine.
    const LONG: Duration = Duration::from_millis(500);
    let start = Instant::now();
    loop {
        match try_lock(&CHOICE) {
            Some(choice) => return Some(choice),
            None if start.elapsed() > LONG => return None,
            None => std::thread::sleep(Duration::from_micros(100)),
        }
    }
}

/// Makes all later copies use `variant`, which must be usable.
pub(in super::super) fn force(variant: Variant) {
    let forced = Choice {
        variant,
        reason: Reason::Forced,
    };
    settle(patiently().as_deref_mut().unwrap_or(&mut None), forced);
}

/// Returns the choice; measures and stores it if there is none.
fn settled(choice: &mut Option<Choice>) -> Choice {
    match *choice {
        Some(choice) => choice,
        None => {
            let measured = measured(&mut lock(&SCRATCH));
            settle(choice, measured)
        }
    }
}

fn settle(choice: &mut Option<Choice>, new: Choice) -> Choice {
    *choice = Some(new);
    // ORDERING: Relaxed; it publishes no other memory. Until a copy sees it, the copy uses the
    // default or the previously forced variant.
    CHOSEN.store(code_of(new.variant), Ordering::Relaxed);
    new
}

fn measured(scratch: &mut Scratch) -> Choice {
    let timings = measure(scratch);
    Choice {
        variant: timings.choice(),
        reason: Reason::Measured(timings),
    }
}

fn measure(scratch: &mut Scratch) -> Timings {
    let mut timings = Timings::default();
    // Never-written pages may all map to one page of zeros.
    scratch.0.fill(1);
    for round in 0..=ROUNDS {
        for variant in Variant::ALL {
            if variant.check().is_ok() {
                let nanoseconds = time(variant, scratch);
                // The first round only warms the caches.
                if round > 0 {
                    timings.note(variant, nanoseconds);
                }
            }
        }
    }
    timings
}

/// Time of one copy by `variant`, which must be usable, in nanoseconds.
fn time(variant: Variant, scratch: &mut Scratch) -> f64 {
    const { assert!(LENGTH > INLINE) };
    let (src, dst) = scratch.0.split_at_mut(TO);
    let start = Instant::now();
    for _ in 0..COPIES {
        // SAFETY: (a), (b) both parts have `LENGTH` exclusive bytes; (d) by the caller.
        unsafe { copy_long_with(variant, src.as_ptr(), dst.as_mut_ptr(), LENGTH) };
    }
    start.elapsed().as_nanos() as f64 / f64::from(COPIES)
}
