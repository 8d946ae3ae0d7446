//! Which thread is in which call: a line a thread. The module's text has the protocol.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use pagewell_sync::asymmetric::{Fences, Refused};
use pagewell_sync::shard::{Padded, own_number};
use pagewell_sync::thread::Backoff;
use pagewell_sync::wiped::WipedOnFork;

/// Threads with larger numbers have no line, and count.
const NR_LINES: usize = 1024;

static LINES: [Padded<AtomicU64>; NR_LINES] = [const { Padded(AtomicU64::new(0)) }; NR_LINES];

/// How many lines were ever used; below it, a closer looks.
static NR_USED: Padded<AtomicU64> = Padded(AtomicU64::new(0));

static FENCES: OnceLock<Fences> = OnceLock::new();

/// Not zero in the process that has made the first handle. None where the system does not tell children.
static HOME: OnceLock<Option<WipedOnFork>> = OnceLock::new();

/// Registers the process for the heavy fence. Before the first handle there is nothing to announce.
pub(crate) fn prepare() {
    FENCES.get_or_init(Fences::new);
    HOME.get_or_init(|| {
        let home = WipedOnFork::new()?;
        // ORDERING: Relaxed; the cell publishes it.
        home.word().store(1, Ordering::Relaxed);
        Some(home)
    });
}

/// Whether this process is a child, by `fork`, of the one that has made the first handle.
#[inline(always)]
pub(crate) fn is_forked() -> bool {
    match HOME.get() {
        // ORDERING: Relaxed; a child has one thread when it begins, and its word is zero from then on.
        Some(Some(home)) => home.word().load(Ordering::Relaxed) == 0,
        _ => false,
    }
}

/// This thread's line has a handle, as long as this exists.
pub(crate) struct Announced(&'static AtomicU64);

impl Announced {
    /// Steps 1 and 2, or none: where the call has to be counted.
    #[inline(always)]
    pub(crate) fn begin(handle: u64) -> Option<Self> {
        let fences = FENCES.get()?;
        let number = own_number()?;
        let line = &LINES.get(number)?.0;
        // ORDERING: Relaxed; only this thread stores to its line.
        if line.load(Ordering::Relaxed) != 0 {
            return None;
        }
        // ORDERING: Relaxed, both; the fence orders them before the loads of a closer (E1).
        line.store(handle, Ordering::Relaxed);
        if number as u64 >= NR_USED.load(Ordering::Relaxed) {
            NR_USED.fetch_max(number as u64 + 1, Ordering::Relaxed);
        }
        fences.light();
        Some(Self(line))
    }
}

impl Drop for Announced {
    /// Step 5.
    #[inline(always)]
    fn drop(&mut self) {
        // ORDERING: Release, E2.
        self.0.store(0, Ordering::Release);
    }
}

/// Whether a call with `handle` is announced, once the heavy fence is passed: steps b and c. Calls that are hits are over in a moment, so they are
/// given one.
pub(super) fn is_announced(handle: u64) -> Result<bool, Refused> {
    let Some(fences) = FENCES.get() else {
        return Ok(false);
    };
    fences.heavy()?;
    // ORDERING: Relaxed; who is not seen here has announced itself after the fence, and sees the word changed (E1).
    let nr = usize::try_from(NR_USED.load(Ordering::Relaxed)).unwrap_or(NR_LINES);
    for line in &LINES[..nr.min(NR_LINES)] {
        let mut backoff = Backoff::new();
        // ORDERING: Acquire, E2.
        while line.0.load(Ordering::Acquire) == handle {
            if backoff.rounds() >= 20 {
                return Ok(true);
            }
            backoff.wait();
        }
    }
    Ok(false)
}
