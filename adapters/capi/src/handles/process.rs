//! Handle state of the process: a table for each kind, hazard slots, and each thread's own slot.
//!
//! On x86-64 Linux with glibc, the thread-local variable for the hazard slot uses the initial-exec
//! model: an access is two loads instead of a function call. If `dlopen` loads the library, the
//! variable's eight bytes come from the space that the loader reserves for such variables.
//!
//! # Fork
//!
//! A handle belongs to the process that created it. In a child of `fork`, [`used_counted`],
//! [`take`] and [`check_process`] refuse the handles of its ancestors. [`with`] and
//! [`with_shortly`] accept them: a hit uses only the child's own memory, and the library refuses
//! all other calls. No lock is shared with the parent ([`PerProcess`]).
//!
//! [`PerProcess`]: super::per_process::PerProcess

use pagewell_sync::asymmetric::Fences;
use pagewell_sync::raced::Raced;

use super::hazards::{Announced, Line, Lines};
use super::per_process::{is_first, this};
use super::table::{self, Refusal, Table};
use crate::error::pw_error::*;
use crate::error::{Failure, Result};

/// Maximum number of threads with a hazard slot.
pub(crate) const NR_LINES: usize = 1024;

static LINES: Lines<NR_LINES> = Lines::new();

static FENCES: Raced<Fences> = Raced::new();

/// Treatment of calls with handles of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Calls {
    /// Frequent calls are published, the others are counted. A close executes the heavy fence.
    Published,
    /// All calls are counted. A close executes no heavy fence.
    Counted,
}

pub(crate) trait Kind: Sized + 'static {
    const NAME: &'static str;
    /// Number of table slots.
    const NR: usize;
    const CALLS: Calls;
    fn table() -> Table<'static, Self>;
}

pub(crate) type Counted<T> = table::Counted<'static, T>;
pub(crate) type Taken<T> = table::Taken<'static, T>;
pub(crate) type Reserved<T> = table::Reserved<'static, T>;

/// Declares tables: type, number and name of the kind, number of slots, treatment of calls.
macro_rules! tables {
    ($($kind:ty: $number:literal, $name:literal, $nr:expr, $calls:ident;)*) => {$(
        impl $crate::handles::Kind for $kind {
            const NAME: &'static str = $name;
            const NR: usize = $nr;
            const CALLS: $crate::handles::Calls = $crate::handles::Calls::$calls;

            #[inline(always)]
            fn table() -> $crate::handles::Table<'static, Self> {
                static SLOTS: [$crate::handles::Slot<$kind>; $nr] =
                    [const { $crate::handles::Slot::NEW }; $nr];
                static FREE: $crate::handles::Free = $crate::handles::Free::NEW;
                const {
                    assert!($nr >= 2 && $nr <= 1 << 16 && usize::is_power_of_two($nr));
                    assert!(1 <= $number && $number <= 31)
                };
                $crate::handles::Table::new($number, &SLOTS, &FREE)
            }
        }
    )*};
}
pub(crate) use tables;

#[cold]
#[inline(never)]
fn failure<T: Kind>(handle: u64, refusal: Refusal) -> Failure {
    let name = T::NAME;
    // Checked first: an ancestor's handle may be "closing" forever, since a child of `fork` does
    // not have the closing thread.
    if let Err(forked) = check_process::<T>(|| handle) {
        return forked;
    }
    let (code, detail) = match refusal {
        Refusal::Null => (PW_ERROR_HANDLE, format!("the {name} is null")),
        Refusal::Closed => (
            PW_ERROR_HANDLE,
            format!("the {name} was closed, or never existed"),
        ),
        Refusal::Dead => (
            PW_ERROR_PANIC,
            format!("an earlier call with the {name} failed by an internal error"),
        ),
        Refusal::Closing => (PW_ERROR_BUSY, format!("the {name} is being closed")),
        Refusal::InCall => (
            PW_ERROR_BUSY,
            format!("a thread is in a call with the {name}"),
        ),
        Refusal::InUse => (
            PW_ERROR_BUSY,
            format!("calls, edits or requests still use the {name}"),
        ),
        Refusal::NoFence => (
            PW_ERROR_UNAVAILABLE,
            "the system refuses membarrier(2), which it has granted before".into(),
        ),
        Refusal::Full => (PW_ERROR_LIMIT, format!("{} of kind {name}", T::NR - 1)),
    };
    Failure::Ours(code, detail.into())
}

/// Reserves a slot. A call that opens a file or begins an edit does so first, so that it has no
/// effect if no slot is free. Registers the process for the heavy fence before it has a handle, and
/// so before any call is published.
pub(crate) fn reserve<T: Kind>() -> Result<Reserved<T>> {
    FENCES.get_or_make(Fences::new);
    T::table()
        .reserve()
        .map_err(|refusal| failure::<T>(0, refusal))
}

pub(crate) fn add<T: Kind>(object: T) -> Result<u64> {
    Ok(reserve::<T>()?.fill(Box::new(object)))
}

/// Fails with `PW_ERROR_FORKED` if an ancestor of this process created the handle.
#[inline(always)]
pub(crate) fn check_process<T: Kind>(handle: impl FnOnce() -> u64) -> Result<()> {
    if is_first() {
        return Ok(());
    }
    check_process_of_fork::<T>(handle())
}

#[cold]
#[inline(never)]
fn check_process_of_fork<T: Kind>(handle: u64) -> Result<()> {
    match T::table().process_of(handle) {
        Some(process) if process != this() => Err(Failure::Ours(
            PW_ERROR_FORKED,
            format!(
                "an ancestor of process {} created the {}",
                std::process::id(),
                T::NAME
            )
            .into(),
        )),
        _ => Ok(()),
    }
}

/// The thread's variable: the address of its hazard slot, or 0.
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
        // SAFETY: loads eight thread-local bytes, which exist as long as the thread.
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
        // SAFETY: stores to the same bytes, which no other code accesses.
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

#[inline(always)]
pub(crate) fn own_line() -> Option<&'static Line> {
    let line = own::get() as *const Line;
    // SAFETY: null, or the address of one of `LINES`, which are static.
    unsafe { line.as_ref() }
}

/// Guard whose drop, at the end of the thread, frees the thread's hazard slot.
struct Return;

impl Drop for Return {
    fn drop(&mut self) {
        // From here on the thread has no hazard slot: `RETURN` cannot be initialized again.
        if let Some(line) = own_line() {
            own::set(0);
            LINES.take_back(line);
        }
    }
}

thread_local! {
    static RETURN: Return = const { Return };
}

/// Assigns this thread a hazard slot, if one is unused, the thread is not ending, and the fences
/// are asymmetric: with symmetric ones, each call would execute a full fence.
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

/// Publishes a call. Returns `None` if the call must be counted.
#[inline(always)]
fn announce(handle: u64) -> Option<Announced<'static>> {
    let line = match own_line() {
        Some(line) => line,
        None => assign()?,
    };
    Announced::begin(line, handle)
}

/// Calls `work` with the object of a handle. `work` may call the page codec, but no callback.
#[inline(always)]
pub(crate) fn with<T: Kind, R>(handle: u64, work: impl FnOnce(&T) -> Result<R>) -> Result<R> {
    const { assert!(matches!(T::CALLS, Calls::Published)) };
    let failure = |refusal| failure::<T>(handle, refusal);
    let Some(announced) = announce(handle) else {
        return work(&*T::table().counted(handle).map_err(failure)?);
    };
    let object = T::table().announced(&announced).map_err(failure)?;
    let answer = work(object);
    drop(announced);
    answer
}

/// Calls `work`, which neither waits nor panics, with the object of a handle and this thread's
/// hazard slot. `None` if the handle is not open, or the thread has no hazard slot or is in a call.
#[inline(always)]
pub(crate) fn with_shortly<T: Kind, R>(
    handle: u64,
    work: impl FnOnce(&T, &'static Line) -> R,
) -> Option<R> {
    const { assert!(matches!(T::CALLS, Calls::Published)) };
    let line = own_line()?;
    let announced = Announced::begin(line, handle)?;
    let answer = work(T::table().announced(&announced).ok()?, line);
    drop(announced);
    Some(answer)
}

/// Returns the object for a counted call, which may be made during another call.
#[inline(never)]
pub(crate) fn used_counted<T: Kind>(handle: u64) -> Result<Counted<T>> {
    check_process::<T>(|| handle)?;
    T::table()
        .counted(handle)
        .map_err(|refusal| failure::<T>(handle, refusal))
}

#[cold]
pub(crate) fn mark_dead<T: Kind>(handle: u64) {
    T::table().mark_dead(handle);
}

pub(crate) fn take<T: Kind>(handle: u64) -> Result<Taken<T>> {
    check_process::<T>(|| handle)?;
    let is_announced = |handle| match FENCES.get() {
        Some(fences) if T::CALLS == Calls::Published => LINES.is_announced(handle, *fences),
        // No call with this kind is ever published, or no handle exists yet.
        _ => Ok(false),
    };
    T::table()
        .take(handle, is_announced)
        .map_err(|refusal| failure::<T>(handle, refusal))
}
