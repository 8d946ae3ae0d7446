//! Whether io_uring can be used: by trying to set up a small ring.

#![allow(unsafe_code)]

use std::fmt;

use rustix::io::Errno;
use rustix::io_uring::{io_uring_params, io_uring_setup};
use serde::Serialize;

use crate::machine::system_text;

/// Whether a ring could be set up, and why not.
#[derive(Serialize)]
pub(super) struct Support {
    available: bool,
    reason: Option<String>,
}

impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            None => f.write_str("available"),
            Some(reason) => write!(f, "not available: {reason}"),
        }
    }
}

/// Sets up a ring of two entries and closes it again.
pub(super) fn probe() -> Support {
    let mut params = io_uring_params::default();
    // SAFETY: no flag is set, so `wq_fd` is not looked at; that is the call's
    // only requirement.
    let ring = unsafe { io_uring_setup(2, &mut params) };
    Support {
        available: ring.is_ok(),
        reason: ring.err().map(reason),
    }
}

fn reason(error: Errno) -> String {
    if error == Errno::NOSYS {
        return "the kernel has no io_uring".to_owned();
    }
    let setting = system_text("/proc/sys/kernel/io_uring_disabled");
    match (error, setting.as_deref()) {
        (Errno::PERM, Some("1" | "2")) => {
            "switched off by the setting kernel.io_uring_disabled".to_owned()
        }
        (Errno::PERM | Errno::ACCESS, _) => {
            "not permitted here (a sandbox or container may forbid it)".to_owned()
        }
        _ => error.to_string(),
    }
}
