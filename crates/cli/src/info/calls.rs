//! System calls that a system may lack or a sandbox may refuse, and the library's replacement for
//! each.

#![allow(unsafe_code)] // System calls.

use std::fmt;
use std::io;
use std::mem::MaybeUninit;

use pagewell_sync::asymmetric::Fences;
use serde::Serialize;

/// A system call that the library can do without, or whose absence its errors name.
#[derive(Serialize)]
pub(super) struct Call {
    name: &'static str,
    /// The system's error. `None` if the call is available.
    error: Option<String>,
    /// Behaviour of the library if the call is unavailable.
    without: &'static str,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.error {
            None => f.write_str("available"),
            Some(error) => write!(f, "not available ({error}): {}", self.without),
        }
    }
}

impl Call {
    pub(super) fn name(&self) -> &'static str {
        self.name
    }
}

/// Descriptor that is not open. A system that has a call on a file reports this error first, and the
/// call changes nothing.
const NONE: libc::c_int = -1;

pub(super) fn probe() -> Vec<Call> {
    vec![
        Call {
            name: "statx",
            error: statx(),
            without: "transfers are buffered, unless direct I/O is required",
        },
        Call {
            name: "name_to_handle_at",
            error: name_to_handle_at(),
            without: "files are compared by their attributes and locks",
        },
        Call {
            name: "F_OFD_SETLK",
            error: lock(),
            without: "files cannot be opened for writing",
        },
        Call {
            name: "sync_file_range",
            // SAFETY: no pointers.
            error: refusal(unsafe { libc::sync_file_range(NONE, 0, 1, 0) }),
            without: "writeback to the device starts at the sync",
        },
        Call {
            name: "membarrier",
            error: match Fences::new().is_asymmetric() {
                true => None,
                false => Some(io::Error::last_os_error().to_string()),
            },
            without: "every pin changes the reference count of its frame",
        },
    ]
}

/// Returns the error of a call with the result `result`, if the system refuses the call.
fn refusal(result: libc::c_int) -> Option<String> {
    let error = (result == -1).then(io::Error::last_os_error)?;
    (error.raw_os_error() != Some(libc::EBADF)).then(|| error.to_string())
}

fn statx() -> Option<String> {
    let mut answer = MaybeUninit::<libc::statx>::uninit();
    let (name, to) = (c"".as_ptr(), answer.as_mut_ptr());
    // Without the C library's function, which replaces a missing call.
    // SAFETY: the name is NUL-terminated, and `to` has the size of the result.
    let result = unsafe {
        let flags = libc::AT_EMPTY_PATH;
        libc::syscall(libc::SYS_statx, NONE, name, flags, libc::STATX_SIZE, to)
    };
    refusal(result as libc::c_int)
}

fn name_to_handle_at() -> Option<String> {
    // `struct file_handle` with a capacity of 0 bytes.
    let (mut handle, mut mount) = ([0_u32; 2], 0);
    let (name, to) = (c"".as_ptr(), (&raw mut handle).cast());
    let flags = libc::AT_EMPTY_PATH;
    // SAFETY: the name is NUL-terminated, `to` has the capacity that it states, and `mount` has the
    // size of a mount ID.
    let result = unsafe { libc::name_to_handle_at(NONE, name, to, &raw mut mount, flags) };
    refusal(result)
}

fn lock() -> Option<String> {
    let lock = libc::flock {
        l_type: libc::F_UNLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: the command reads this lock.
    refusal(unsafe { libc::fcntl(NONE, libc::F_OFD_SETLK, &raw const lock) })
}
