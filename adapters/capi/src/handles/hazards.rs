//! Which thread is in which call: a line a thread. The module's text has the protocol.
//!
//! A thread has the address of its line in a variable of its own, from its first announced call until it ends; then the line goes to another one. A thread without
//! a line counts: there are so many more, it is ending, or the system has no `membarrier(2)`.
//!
//! On x86-64 Linux the variable is one of the initial-exec model, which takes one load where a variable of a shared library takes a call. A library that is loaded by
//! `dlopen` finds room for its eight bytes in what the loader keeps for that.

use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};
use std::sync::{Mutex, OnceLock, PoisonError};

use pagewell_sync::asymmetric::{Fences, Refused};
use pagewell_sync::shard::Padded;
use pagewell_sync::thread::Backoff;
use pagewell_sync::wiped::WipedOnFork;

/// Threads beyond have none.
pub(crate) const NR_LINES: usize = 1024;

pub(crate) struct Line {
    /// The handle of the call that the thread is in, or 0.
    handle: AtomicU64,
    /// The line's number, once it was used.
    number: AtomicU64,
}

static LINES: [Padded<Line>; NR_LINES] = [const {
    Padded(Line {
        handle: AtomicU64::new(0),
        number: AtomicU64::new(0),
    })
}; NR_LINES];

/// The lines that were used and belong to nobody, and the first that was never used.
struct Numbers {
    free: Vec<usize>,
    next: usize,
}

static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers {
    free: Vec::new(),
    next: 0,
});

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

/// The thread's variable: the address of its line, or 0.
#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
mod own {
    use std::arch::{asm, global_asm};

    global_asm!(
        ".pushsection .tbss.pagewell_capi_line,\"awT\",@nobits",
        ".hidden pagewell_capi_line",
        ".globl pagewell_capi_line",
        ".type pagewell_capi_line,@object",
        ".size pagewell_capi_line,8",
        ".p2align 3",
        "pagewell_capi_line:",
        ".zero 8",
        ".popsection",
    );

    #[inline(always)]
    pub(super) fn get() -> usize {
        let line: usize;
        // SAFETY: loads eight bytes of the thread's own, which are there as long as the thread is.
        unsafe {
            asm!(
                "mov {line}, qword ptr [rip + pagewell_capi_line@GOTTPOFF]",
                "mov {line}, qword ptr fs:[{line}]",
                line = out(reg) line,
                options(nostack, preserves_flags, readonly),
            );
        }
        line
    }

    pub(super) fn set(line: usize) {
        // SAFETY: stores to the same bytes, which nothing else knows.
        unsafe {
            asm!(
                "mov {at}, qword ptr [rip + pagewell_capi_line@GOTTPOFF]",
                "mov qword ptr fs:[{at}], {line}",
                at = out(reg) _,
                line = in(reg) line,
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")))]
mod own {
    use std::cell::Cell;

    thread_local! {
        static LINE: Cell<usize> = const { Cell::new(0) };
    }

    #[inline(always)]
    pub(super) fn get() -> usize {
        LINE.get()
    }

    pub(super) fn set(line: usize) {
        LINE.set(line);
    }
}

/// Gives the line back when the thread ends.
struct Return;

impl Drop for Return {
    fn drop(&mut self) {
        // From here on the thread has none: `RETURN` cannot be had again.
        if let Some(line) = own_line() {
            own::set(0);
            let mut numbers = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
            numbers.free.push(line.number());
        }
    }
}

thread_local! {
    static RETURN: Return = const { Return };
}

impl Line {
    /// Which one it is.
    pub(crate) fn number(&self) -> usize {
        // ORDERING: Relaxed; its thread has stored it.
        self.number.load(Ordering::Relaxed) as usize
    }
}

/// This thread's line, if it has one.
#[inline(always)]
pub(crate) fn own_line() -> Option<&'static Line> {
    let line = own::get() as *const Line;
    // SAFETY: null, or the address of one of `LINES`, which are static.
    unsafe { line.as_ref() }
}

/// Gives this thread a line, if there is one for it, and the rare side pays for both fences.
#[cold]
#[inline(never)]
fn assign() -> Option<&'static Line> {
    if !FENCES.get()?.is_asymmetric() || RETURN.try_with(|_| ()).is_err() {
        return None;
    }
    let mut numbers = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
    let number = match numbers.free.pop() {
        Some(number) => number,
        None if numbers.next < NR_LINES => {
            numbers.next += 1;
            numbers.next - 1
        }
        None => return None,
    };
    let line = &LINES[number].0;
    // ORDERING: Relaxed; for this thread alone.
    line.number.store(number as u64, Ordering::Relaxed);
    own::set(std::ptr::from_ref(line).addr());
    Some(line)
}

/// This thread's line has a handle, as long as this exists.
pub(crate) struct Announced(&'static Line);

impl Announced {
    /// Steps 1 and 2, or none: where the call has to be counted.
    #[inline(always)]
    pub(crate) fn begin(handle: u64) -> Option<Self> {
        let line = match own_line() {
            Some(line) => line,
            None => assign()?,
        };
        Self::on(line, handle)
    }

    /// The same of a thread that has a line.
    #[inline(always)]
    pub(crate) fn on(line: &'static Line, handle: u64) -> Option<Self> {
        // ORDERING: Relaxed; only this thread stores to its line.
        if line.handle.load(Ordering::Relaxed) != 0 {
            return None;
        }
        // ORDERING: Relaxed; the light fence orders it before the load of the word: the rare side's membarrier(2) pays for both, and the compiler may not
        // move the two (E1). There are lines only where the system has that call.
        line.handle.store(handle, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        Some(Self(line))
    }
}

impl Drop for Announced {
    /// Step 5.
    #[inline(always)]
    fn drop(&mut self) {
        // ORDERING: Release, E2.
        self.0.handle.store(0, Ordering::Release);
    }
}

/// Whether a call with `handle` is announced, once the heavy fence is passed: steps b and c. Calls that are hits are over in a moment, so they are
/// given one.
pub(super) fn is_announced(handle: u64) -> Result<bool, Refused> {
    let Some(fences) = FENCES.get() else {
        return Ok(false);
    };
    fences.heavy()?;
    // A thread that gets its line only now announces itself after the fence, and sees the word changed (E1).
    let nr = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner).next;
    for line in &LINES[..nr] {
        let mut backoff = Backoff::new();
        // ORDERING: Acquire, E2.
        while line.handle.load(Ordering::Acquire) == handle {
            if backoff.rounds() >= 20 {
                return Ok(true);
            }
            backoff.wait();
        }
    }
    Ok(false)
}
