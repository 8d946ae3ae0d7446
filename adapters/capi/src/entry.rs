//! Wrappers of the exported functions that can fail: they convert panics and errors into codes.
//! Fast paths, which cannot panic (`with_shortly`), run outside the wrappers.

use std::any::Any;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::pw_error::*;
use crate::error::{Failure, Result};
use crate::handles::{Kind, mark_dead};

/// Performs a call that creates or frees an object, ends a pin, or validates or copies a view.
/// Unlike [`call_with`], it marks no handle as dead after a panic.
#[inline(always)]
pub(crate) fn call(work: impl FnOnce() -> Result<()>) -> c_int {
    // `AssertUnwindSafe` is correct: if a panic leaves an object inconsistent, its handle is dead
    // or free, or was not returned yet. The end of a pin and the use of a view only read the file.
    match catch_unwind(AssertUnwindSafe(|| {
        panics::due();
        work()
    })) {
        Ok(Ok(())) => PW_OK as c_int,
        Ok(Err(failure)) => failure.tell(),
        Err(payload) => panicked(payload),
    }
}

/// Performs a call with a handle. After a panic, the handle is dead: it can only be closed.
#[inline(always)]
pub(crate) fn call_with<T: Kind>(handle: u64, work: impl FnOnce() -> Result<()>) -> c_int {
    match catch_unwind(AssertUnwindSafe(|| {
        panics::due();
        work()
    })) {
        Ok(Ok(())) => PW_OK as c_int,
        Ok(Err(failure)) => failure.tell(),
        Err(payload) => {
            mark_dead::<T>(handle);
            panicked(payload)
        }
    }
}

/// Returns `true` if tests may request panics. If so, no fast path, which catches none, is used.
pub(crate) const fn is_test() -> bool {
    cfg!(feature = "test-panics")
}

#[cold]
#[inline(never)]
fn panicked(payload: Box<dyn Any + Send>) -> c_int {
    Failure::Ours(PW_ERROR_PANIC, text_of(payload).into()).tell()
}

fn text_of(payload: Box<dyn Any + Send>) -> String {
    let payload = match payload.downcast::<&str>() {
        Ok(text) => return (*text).to_owned(),
        Err(payload) => payload,
    };
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => {
            // Dropping the payload may panic too.
            std::mem::forget(payload);
            "no message".to_owned()
        }
    }
}

/// Calls `work`, and returns its result, or the message of its panic. The caller must drop the
/// values that `work` may have left inconsistent.
pub(crate) fn caught<R>(work: impl FnOnce() -> R) -> std::result::Result<R, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(text_of)
}

#[cfg(not(feature = "test-panics"))]
mod panics {
    #[inline(always)]
    pub(super) fn due() {}
}

#[cfg(feature = "test-panics")]
mod panics {
    use std::cell::Cell;

    thread_local! {
        static IS_DUE: Cell<bool> = const { Cell::new(false) };
    }

    pub(super) fn due() {
        assert!(!IS_DUE.replace(false), "a panic that a test requested");
    }

    /// Makes the next call of this thread panic. For tests; not in the header.
    #[unsafe(no_mangle)]
    extern "C" fn pw_test_panic() {
        IS_DUE.set(true);
    }
}
