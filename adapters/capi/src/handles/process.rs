//! What of handles the process has: a table a kind, one set of lines, and each thread's own. The module's text has the protocol.
//!
//! A thread has the address of its line in a variable of its own, from its first announced call until it ends.
//!
//! On x86-64 Linux the variable is one of the initial-exec model, which takes one load where a variable of a shared library takes a call. A library that is loaded by
//! `dlopen` finds room for its eight bytes in what the loader keeps for that.

use std::sync::OnceLock;

use pagewell_sync::asymmetric::Fences;
use pagewell_sync::atomic::Ordering;
use pagewell_sync::wiped::WipedOnFork;

use super::hazards::{Announced, Line, Lines};
use super::table::{self, Refusal, Table};
use crate::error::pw_error::*;
use crate::error::{Failure, Result};

/// Threads beyond have no line.
pub(crate) const NR_LINES: usize = 1024;

static LINES: Lines<NR_LINES> = Lines::new();

static FENCES: OnceLock<Fences> = OnceLock::new();

/// Not zero in the process that has made the first handle. None where the system does not tell children.
static HOME: OnceLock<Option<WipedOnFork>> = OnceLock::new();

/// A kind of handles: the type of their objects.
pub(crate) trait Kind: Sized + 'static {
    /// How it is called in errors.
    const NAME: &'static str;
    /// How many slots it has.
    const NR: usize;
    fn table() -> Table<'static, Self>;
}

pub(crate) type Counted<T> = table::Counted<'static, T>;
pub(crate) type Taken<T> = table::Taken<'static, T>;

/// Tables, each of a kind: its type, number, name and how many slots.
macro_rules! tables {
    ($($kind:ty: $number:literal, $name:literal, $nr:expr;)*) => {$(
        impl $crate::handles::Kind for $kind {
            const NAME: &'static str = $name;
            const NR: usize = $nr;

            #[inline(always)]
            fn table() -> $crate::handles::Table<'static, Self> {
                static SLOTS: [$crate::handles::Slot<$kind>; $nr] = [const { $crate::handles::Slot::NEW }; $nr];
                static FREE: std::sync::Mutex<$crate::handles::Free> = std::sync::Mutex::new($crate::handles::Free::NEW);
                const { assert!($nr >= 2 && $nr <= 1 << 16 && usize::is_power_of_two($nr) && 1 <= $number && $number <= 31) };
                $crate::handles::Table::new($number, &SLOTS, &FREE)
            }
        }
    )*};
}
pub(crate) use tables;

/// The failure of a call.
#[cold]
#[inline(never)]
fn failure<T: Kind>(refusal: Refusal) -> Failure {
    let name = T::NAME;
    let (code, detail) = match refusal {
        Refusal::Null => (PW_ERROR_HANDLE, format!("the {name} is null")),
        Refusal::Closed => (
            PW_ERROR_HANDLE,
            format!("the {name} was closed, or never was one"),
        ),
        Refusal::Dead => (
            PW_ERROR_PANIC,
            format!("an earlier call with the {name} has failed inside of the library"),
        ),
        Refusal::Closing => (PW_ERROR_BUSY, format!("the {name} is being closed")),
        Refusal::InCall => (
            PW_ERROR_BUSY,
            format!("a thread is in a call with the {name}"),
        ),
        Refusal::InUse => (
            PW_ERROR_BUSY,
            format!("calls, edits, files or requests are under way with the {name}"),
        ),
        Refusal::NoFence => (
            PW_ERROR_UNAVAILABLE,
            "the system refuses membarrier(2), which it has granted before".into(),
        ),
        Refusal::Full => (PW_ERROR_LIMIT, format!("{} of the kind {name}", T::NR - 1)),
    };
    Failure::Ours(code, detail.into())
}

/// Makes a handle of `object`. Before the first one the process is registered for the heavy fence: there is nothing to announce yet.
pub(crate) fn add<T: Kind>(object: T) -> Result<u64> {
    FENCES.get_or_init(Fences::new);
    HOME.get_or_init(|| {
        let home = WipedOnFork::new()?;
        // ORDERING: Relaxed; the cell publishes it.
        home.word().store(1, Ordering::Relaxed);
        Some(home)
    });
    T::table().add(object).map_err(failure::<T>)
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

/// This thread's line, if it has one.
#[inline(always)]
pub(crate) fn own_line() -> Option<&'static Line> {
    let line = own::get() as *const Line;
    // SAFETY: null, or the address of one of `LINES`, which are static.
    unsafe { line.as_ref() }
}

/// Gives the line back when the thread ends.
struct Return;

impl Drop for Return {
    fn drop(&mut self) {
        // From here on the thread has none: `RETURN` cannot be had again.
        if let Some(line) = own_line() {
            own::set(0);
            LINES.take_back(line);
        }
    }
}

thread_local! {
    static RETURN: Return = const { Return };
}

/// Has this thread lent a line, if there is one for it, and the closer pays for both fences.
#[cold]
#[inline(never)]
fn assign() -> Option<&'static Line> {
    if !FENCES.get()?.is_asymmetric() || RETURN.try_with(|_| ()).is_err() {
        return None;
    }
    let line = LINES.lend()?;
    own::set(std::ptr::from_ref(line).expose_provenance());
    Some(line)
}

/// Announces a call with a handle; none where it has to be counted.
#[inline(always)]
fn announce(handle: u64) -> Option<Announced<'static>> {
    let line = match own_line() {
        Some(line) => line,
        None => assign()?,
    };
    Announced::begin(line, handle)
}

/// Does `work` with the object of a handle: for calls that call nothing of the program's but hooks on bytes.
#[inline(always)]
pub(crate) fn with<T: Kind, R>(handle: u64, work: impl FnOnce(&T) -> Result<R>) -> Result<R> {
    let Some(announced) = announce(handle) else {
        return work(&*used_counted(handle)?);
    };
    let object = T::table().announced(&announced).map_err(failure::<T>)?;
    let answer = work(object);
    drop(announced);
    answer
}

/// Does `work`, which neither waits nor panics, with the object of a handle and this thread's line; none, and nothing was done, where that takes more than an announcement: the handle is
/// none, or the thread has no line, or is in a call.
#[inline(always)]
pub(crate) fn with_shortly<T: Kind, R>(
    handle: u64,
    work: impl FnOnce(&T, &'static Line) -> R,
) -> Option<R> {
    let line = own_line()?;
    let announced = Announced::begin(line, handle)?;
    let answer = work(T::table().announced(&announced).ok()?, line);
    drop(announced);
    Some(answer)
}

/// The object of a handle, for any call.
#[inline(never)]
pub(crate) fn used_counted<T: Kind>(handle: u64) -> Result<Counted<T>> {
    T::table().counted(handle).map_err(failure::<T>)
}

/// Makes the handle of a call that has panicked a dead one.
#[cold]
pub(crate) fn mark_dead<T: Kind>(handle: u64) {
    T::table().mark_dead(handle);
}

/// Takes an object out, if nobody is using it.
pub(crate) fn take<T: Kind>(handle: u64) -> Result<Taken<T>> {
    let is_announced = |handle| match FENCES.get() {
        Some(fences) => LINES.is_announced(handle, *fences),
        // There is no handle yet.
        None => Ok(false),
    };
    T::table().take(handle, is_announced).map_err(failure::<T>)
}
