//! Which variant long copies use: measured once in a process.
//!
//! Owns: [`CHOSEN`], the word that every long copy looks at, the measurement, and what there is to say
//! about it. Who is first (a long copy, or `variant::choice`) measures; others meanwhile use the default.
//!
//! # The measurement
//!
//! Copies of 4 KiB within the first-level cache, by each variant that the processor and the system have, in
//! turns: [`ROUNDS`] rounds of [`COPIES`] copies each, of which the shortest counts. What disturbs a
//! round (an interrupt, another process, a frequency that has yet to rise, the upper halves of the registers that have
//! yet to be powered) makes it longer and never shorter, and would have to disturb all rounds of one variant
//! and none of another's. It takes some 50 µs. What it decides by is in [`Timings::choice`].
//!
//! The place of the destination, 2112 bytes behind the source modulo 4096, is one where no variant takes
//! loads to depend on the stores before them.

use std::time::{Duration, Instant};

use super::super::variant::names::{Choice, Reason, Timings, Variant};
use super::long::{INLINE, copy_long_with};
use crate::atomic::{AtomicU32, Ordering};
use crate::{Mutex, MutexGuard, lock, try_lock};

/// The variant that long copies use: [`NONE`] yet, or its code.
pub(super) static CHOSEN: AtomicU32 = AtomicU32::new(NONE);

/// No variant has been chosen.
pub(super) const NONE: u32 = 0;
/// The code of [`Variant::Sse2`].
pub(super) const SSE2: u32 = code_of(Variant::Sse2);
/// The code of [`Variant::Avx`].
pub(super) const AVX: u32 = code_of(Variant::Avx);
/// The code of [`Variant::Avx512`].
pub(super) const AVX512: u32 = code_of(Variant::Avx512);
/// The code of [`Variant::RepMovsb`].
pub(super) const REP_MOVSB: u32 = code_of(Variant::RepMovsb);

/// What was chosen, and why. Locked while it is being measured.
static CHOICE: Mutex<Option<Choice>> = Mutex::new(None);

/// What is copied in the measurement; locked after [`CHOICE`].
static SCRATCH: Mutex<Scratch> = Mutex::new(Scratch([0; SCRATCH_BYTES]));

/// Bytes of the copies that are measured: a page.
const LENGTH: usize = 4096;
/// Where in the scratch memory they go.
const TO: usize = LENGTH + 2112;
const SCRATCH_BYTES: usize = TO + LENGTH;

/// Copies that are timed together: enough for the clock's overhead and grain, which are the same for all variants,
/// to be a few hundredths of it.
const COPIES: u32 = 32;
const ROUNDS: u32 = 10;

/// Static, so that a copy needs neither heap nor a deep stack for it.
#[repr(align(4096))]
struct Scratch([u8; SCRATCH_BYTES]);

const fn code_of(variant: Variant) -> u32 {
    variant as u32 + 1
}

/// The variant of a code other than [`NONE`].
pub(super) fn variant_of(code: u32) -> Variant {
    Variant::ALL[code as usize - 1]
}

/// What is used while it is not measured yet.
fn default() -> Variant {
    if std::is_x86_feature_detected!("avx") {
        Variant::Avx
    } else {
        Variant::Sse2
    }
}

/// The variant to use, for a copy that has found none chosen: measured now, or, while somebody else measures, the
/// default.
///
/// It never waits, so a child of `fork` is not stuck where another thread was measuring.
#[cold]
#[inline(never)]
pub(super) fn first() -> Variant {
    match try_lock(&CHOICE) {
        Some(mut choice) => settled(&mut choice).variant,
        None => default(),
    }
}

/// What `variant::choice` answers.
pub(in super::super) fn choice() -> Choice {
    match patiently() {
        Some(mut choice) => settled(&mut choice),
        // What copies use here stays what it is; this is what it would be.
        None => measured(&mut Box::new(Scratch([0; SCRATCH_BYTES]))),
    }
}

/// [`CHOICE`]; None if whoever has it is not in this process: a child of a `fork` in the middle of the measurement.
fn patiently() -> Option<MutexGuard<'static, Option<Choice>>> {
    /// A hundred times as long as a measurement takes, on a machine that does something else most of the time.
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

/// Has `variant`, which can be used, used from now on.
pub(in super::super) fn force(variant: Variant) {
    let forced = Choice {
        variant,
        reason: Reason::Forced,
    };
    settle(patiently().as_deref_mut().unwrap_or(&mut None), forced);
}

/// What was chosen, or is now.
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
    // ORDERING: Relaxed; it says nothing about other memory. Copies that see it late use the default, or
    // what was forced before.
    CHOSEN.store(code_of(new.variant), Ordering::Relaxed);
    new
}

/// What the measurement says.
fn measured(scratch: &mut Scratch) -> Choice {
    let timings = measure(scratch);
    Choice {
        variant: timings.choice(),
        reason: Reason::Measured(timings),
    }
}

/// How long a copy takes by each variant that can be used.
fn measure(scratch: &mut Scratch) -> Timings {
    let mut timings = Timings::default();
    // Pages that nothing was written to may all be the same zeros.
    scratch.0.fill(1);
    for round in 0..=ROUNDS {
        for variant in Variant::ALL {
            if variant.check().is_ok() {
                let nanoseconds = time(variant, scratch);
                // The first round brings code and data into the caches.
                if round > 0 {
                    timings.note(variant, nanoseconds);
                }
            }
        }
    }
    timings
}

/// Nanoseconds of a copy by `variant`, which can be used.
fn time(variant: Variant, scratch: &mut Scratch) -> f64 {
    const { assert!(LENGTH > INLINE) };
    let (src, dst) = scratch.0.split_at_mut(TO);
    let start = Instant::now();
    for _ in 0..COPIES {
        // SAFETY: (a) and (b) both parts are as long and ours; (d) as the caller says.
        unsafe { copy_long_with(variant, src.as_ptr(), dst.as_mut_ptr(), LENGTH) };
    }
    start.elapsed().as_nanos() as f64 / f64::from(COPIES)
}
