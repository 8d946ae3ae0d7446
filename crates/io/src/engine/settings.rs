//! What can be chosen of io_uring, and why there is none.

use std::fmt;
use std::time::Duration;

/// What can be chosen of a [`UringEngine`](crate::engine::UringEngine).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UringSettings {
    /// Requests under way that no thread waits for, at most; 8 to 16384, and rounded up to a power of two.
    pub depth: u32,
    /// Requests under way of one storage, of these; at least one.
    pub per_storage: usize,
    /// Time for which the drop of an engine waits for such requests, at most. Then its thread is left, with a line on standard error.
    /// Completions of the program run on other threads, and may still run after the drop.
    pub close_timeout: Duration,
}

impl Default for UringSettings {
    /// 1024 requests, 256 of one storage; a second.
    fn default() -> Self {
        Self {
            depth: 1024,
            per_storage: 256,
            close_timeout: Duration::from_secs(1),
        }
    }
}

/// Why there is no io_uring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The system refused it, with this error number.
    Refused(i32),
    /// The kernel is too old: it lacks this.
    Lacks(&'static str),
    /// No thread could be made for it, with this error number.
    NoThread(i32),
    /// This system has none.
    NotHere,
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
                "no memory for io_uring (on kernels before 5.12 RLIMIT_MEMLOCK bounds it): {}",
                name(errno)
            ),
            Self::Refused(errno) => write!(f, "the system refuses io_uring: {}", name(errno)),
            Self::Lacks(what) => write!(f, "the kernel's io_uring is too old: it lacks {what}"),
            Self::NoThread(errno) => write!(f, "no thread for io_uring: {}", name(errno)),
            Self::NotHere => f.write_str("this system has no io_uring"),
        }
    }
}

impl std::error::Error for Refusal {}
