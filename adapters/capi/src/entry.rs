//! What every exported function goes through: panics become errors, and errors codes.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::pw_error::*;
use crate::error::{Failure, Result};
use crate::handles::{Kind, mark_dead};

/// Makes a call that is of no handle.
#[inline(always)]
pub(crate) fn call(work: impl FnOnce() -> Result<()>) -> c_int {
    // What a panic leaves half done is of an object whose handle is dead then, or was not handed out yet.
    match catch_unwind(AssertUnwindSafe(|| {
        panics::due();
        work()
    })) {
        Ok(Ok(())) => PW_OK as c_int,
        Ok(Err(failure)) => failure.tell(),
        Err(payload) => panicked(payload),
    }
}

/// Makes a call with a handle, which is dead if the call panics.
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

/// Whether tests may ask for panics: then each call goes the long way.
pub(crate) const fn is_test() -> bool {
    cfg!(feature = "test-panics")
}

#[cold]
#[inline(never)]
fn panicked(payload: Box<dyn std::any::Any + Send>) -> c_int {
    let text = match payload.downcast::<&str>() {
        Ok(text) => (*text).to_owned(),
        Err(payload) => match payload.downcast::<String>() {
            Ok(text) => *text,
            Err(payload) => {
                // Its drop may panic too.
                std::mem::forget(payload);
                "no message".to_owned()
            }
        },
    };
    Failure::Ours(PW_ERROR_PANIC, text.into()).tell()
}

/// Panics for tests.
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
        assert!(!IS_DUE.replace(false), "a panic that a test has asked for");
    }

    /// Makes the next call of this thread panic. Not in the header: for tests.
    #[unsafe(no_mangle)]
    extern "C" fn pw_test_panic() {
        IS_DUE.set(true);
    }
}
