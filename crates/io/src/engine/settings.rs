//! Settings of engines, and the reason why io_uring is unavailable.

use std::fmt;
use std::time::Duration;

use super::worker::WorkerSettings;

/// Requested kind of engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Choice {
    /// io_uring, or threads where it is unavailable.
    #[default]
    Auto,
    /// io_uring only.
    Uring,
    /// Threads.
    Worker,
    /// No threads: the submitting thread makes the backend's calls.
    Sync,
}

impl Choice {
    /// Returns `true` if [`Chosen::new`](super::Chosen::new) can fail, since the choice has no
    /// fallback.
    #[must_use]
    pub const fn may_fail(self) -> bool {
        matches!(self, Self::Uring)
    }
}

/// Settings of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// Kind of engine.
    pub choice: Choice,
    /// Settings of io_uring.
    pub uring: UringSettings,
    /// Settings of the threads. The io_uring engine uses them for calls that may block.
    pub workers: WorkerSettings,
}

impl Settings {
    /// Creates settings with this `choice`, and defaults for the rest.
    #[must_use]
    pub fn new(choice: Choice) -> Self {
        Self {
            choice,
            ..Self::default()
        }
    }
}

/// Settings of a [`UringEngine`](crate::engine::UringEngine).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UringSettings {
    /// Maximum number of requests in flight for which no thread waits, clamped to 8..=16384.
    pub depth: u32,
    /// Maximum number of these requests of one backend; at least one.
    pub per_storage: usize,
    /// Maximum time for which the drop of an engine waits for these requests. After this time, it
    /// prints a line on standard error, and the engine's thread continues until they complete.
    /// Completions that are code of the program run on other threads, possibly after the drop.
    pub close_timeout: Duration,
}

impl Default for UringSettings {
    /// 1024 requests in all and 256 of one backend, and a timeout of one second.
    fn default() -> Self {
        Self {
            depth: 1024,
            per_storage: 256,
            close_timeout: Duration::from_secs(1),
        }
    }
}

/// Reason why io_uring is unavailable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The system rejected the setup of io_uring, with this error number.
    Refused(i32),
    /// The kernel's io_uring lacks this feature.
    Lacks(&'static str),
    /// The engine's thread could not be started, with this error number, or 0 if it panicked.
    NoThread(i32),
}

impl Refusal {
    /// Returns `true` if a later attempt may succeed: a limit of the process or system was reached.
    #[must_use]
    pub fn may_pass(self) -> bool {
        let passing = [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EAGAIN];
        match self {
            Self::Refused(errno) | Self::NoThread(errno) => passing.contains(&errno),
            Self::Lacks(_) => false,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |errno: i32| std::io::Error::from_raw_os_error(errno);
        match *self {
            Self::Refused(errno @ (libc::EPERM | libc::EACCES)) => write!(
                f,
                "io_uring is forbidden (by seccomp, a container or kernel.io_uring_disabled): {}",
                name(errno)
            ),
            Self::Refused(libc::ENOSYS) => {
                f.write_str("the kernel has no io_uring, or a sandbox hides it")
            }
            Self::Refused(errno @ libc::ENOMEM) => write!(
                f,
                "cannot allocate memory for io_uring (RLIMIT_MEMLOCK bounds it before Linux 5.12): \
                 {}",
                name(errno)
            ),
            Self::Refused(errno) => write!(f, "the system rejected io_uring: {}", name(errno)),
            Self::Lacks(what) => write!(f, "the kernel's io_uring is too old: it lacks {what}"),
            Self::NoThread(errno) => write!(f, "cannot start the io_uring thread: {}", name(errno)),
        }
    }
}

impl std::error::Error for Refusal {}
