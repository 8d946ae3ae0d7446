//! Children made by `fork`, which share nothing with their parent but open files.

#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Exit status of a child whose body has panicked.
const PANICKED: i32 = 99;

/// Time after which a child is ended, in seconds.
const LIMIT_S: u32 = 60;

/// Runs `body` in a child made by `fork`, and returns the child's exit status: what `body` has returned (0 to 255), or
/// 99 if it panicked. The thread that calls this is the only one in the child, and its main thread.
///
/// `body` may lock nothing that another thread of this process may have locked (except the allocator of the C library,
/// which takes care of itself). If it panics while another thread prints a panic, the hook of panics may never return.
///
/// # Panics
///
/// If there can be no child, or a signal has ended it: after a minute, that of an alarm.
#[track_caller]
#[must_use]
pub fn in_child(body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child runs `body`, which takes no locks of other threads, and ends without returning from here.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork: {}", std::io::Error::last_os_error());
    if child == 0 {
        // SAFETY: it touches no memory.
        unsafe { libc::alarm(LIMIT_S) };
        let status = catch_unwind(AssertUnwindSafe(body)).unwrap_or(PANICKED);
        // SAFETY: ends the child without destructors of this process, and without what the test harness does at its end.
        unsafe { libc::_exit(status) };
    }
    let mut status = 0;
    // SAFETY: the child is this function's own, and `status` outlives the call.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child, "waitpid");
    assert!(
        libc::WIFEXITED(status),
        "signal {} has ended the child",
        libc::WTERMSIG(status)
    );
    libc::WEXITSTATUS(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_of_the_child_is_that_of_its_body() {
        assert_eq!(in_child(|| 7), 7);
        // Without the hook of panics, whose locks other tests' threads may have.
        let panics = || std::panic::resume_unwind(Box::new("the body of a child"));
        assert_eq!(in_child(panics), PANICKED);
    }

    #[test]
    #[should_panic(expected = "signal 9 has ended the child")]
    fn child_that_a_signal_has_ended_is_an_error() {
        // SAFETY: no pointers.
        let _ = in_child(|| unsafe { libc::raise(libc::SIGKILL) });
    }
}
