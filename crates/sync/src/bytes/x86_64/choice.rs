//! Choice of the variant for long copies, by one measurement per process.
//!
//! In each of [`ROUNDS`] rounds, every usable variant copies 4 KiB [`COPIES`] times within the
//! first-level cache. The shortest round of each variant counts, since a disturbance (an interrupt,
//! another process, a low processor frequency, unpowered upper halves of registers) only makes a
//! round longer: it matters only if it affects all rounds of one variant and not all of another.
//! The measurement takes 50 to 120 µs (`docs/adr/0013`). Concurrent copies use the default variant.
//!
//! At 2112 bytes from source to destination modulo 4096, no variant has false dependencies.

use std::time::{Duration, Instant};

use super::super::variant::names::{Choice, Reason, Timings, Variant};
use super::long::{INLINE, copy_long_with};
use crate::atomic::{AtomicU32, Ordering};
use crate::{Mutex, MutexGuard, lock, try_lock};

/// Code of the variant that long copies use, or [`NONE`].
pub(super) static CHOSEN: AtomicU32 = AtomicU32::new(NONE);

pub(super) const NONE: u32 = 0;
pub(super) const SSE2: u32 = code_of(Variant::Sse2);
pub(super) const AVX: u32 = code_of(Variant::Avx);
pub(super) const AVX512: u32 = code_of(Variant::Avx512);
pub(super) const REP_MOVSB: u32 = code_of(Variant::RepMovsb);

/// Locked during the measurement.
static CHOICE: Mutex<Option<Choice>> = Mutex::new(None);

/// Locked only while [`CHOICE`] is locked.
static SCRATCH: Mutex<Scratch> = Mutex::new(Scratch([0; SCRATCH_BYTES]));

const LENGTH: usize = 4096;
/// Offset of the destination in the scratch memory.
const TO: usize = LENGTH + 2112;
const SCRATCH_BYTES: usize = TO + LENGTH;

/// Number of copies between two readings of the clock. The clock's overhead and resolution, equal
/// for all variants, are then a few percent of the measured time.
const COPIES: u32 = 32;
const ROUNDS: u32 = 10;

/// One value is static, so that the first long copy needs neither heap nor a deep stack.
#[repr(align(4096))]
struct Scratch([u8; SCRATCH_BYTES]);

const fn code_of(variant: Variant) -> u32 {
    variant as u32 + 1
}

/// Panics if the code is [`NONE`].
pub(super) fn variant_of(code: u32) -> Variant {
    Variant::ALL[code as usize - 1]
}

/// The variant that copies use until the measurement has ended.
fn default() -> Variant {
    if std::is_x86_feature_detected!("avx") {
        Variant::Avx
    } else {
        Variant::Sse2
    }
}

/// For a copy that found [`CHOSEN`] to be [`NONE`]: measures and chooses, or returns the default if
/// another thread holds [`CHOICE`]. Never waits: in a child that was forked during a measurement,
/// the lock is never released.
#[cold]
#[inline(never)]
pub(super) fn first() -> Variant {
    match try_lock(&CHOICE) {
        Some(mut choice) => settled(&mut choice).variant,
        None => default(),
    }
}

pub(in super::super) fn choice() -> Choice {
    match patiently() {
        Some(mut choice) => settled(&mut choice),
        // The lock is never released in this process. Copies keep their variant.
        None => measured(&mut Box::new(Scratch([0; SCRATCH_BYTES]))),
    }
}

/// Locks [`CHOICE`]. After a timeout returns `None`: this process was forked during a measurement.
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

/// `variant` must be usable.
pub(in super::super) fn force(variant: Variant) {
    let forced = Choice {
        variant,
        reason: Reason::Forced,
    };
    settle(patiently().as_deref_mut().unwrap_or(&mut None), forced);
}

/// Measures the variants if no choice is stored.
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
    // ORDERING: Relaxed; the word publishes no other memory. A copy that still loads the old value
    // uses the default or the previous variant.
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
    // Pages that were never written may all map to one page of zeros.
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

/// Returns the nanoseconds of one copy by `variant`, which must be usable.
fn time(variant: Variant, scratch: &mut Scratch) -> f64 {
    const { assert!(LENGTH > INLINE) };
    let (src, dst) = scratch.0.split_at_mut(TO);
    let start = Instant::now();
    for _ in 0..COPIES {
        // SAFETY: (a), (b) both parts have `LENGTH` exclusive bytes; (d) by the caller's check.
        unsafe { copy_long_with(variant, src.as_ptr(), dst.as_mut_ptr(), LENGTH) };
    }
    start.elapsed().as_nanos() as f64 / f64::from(COPIES)
}
