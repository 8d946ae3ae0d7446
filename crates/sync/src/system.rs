//! Page size and limits that the operating system reports.

#![allow(unsafe_code)] // Calls of the C library.

use std::fs;

/// Returns the size of the system's pages in bytes, if it is known.
#[must_use]
pub fn page_bytes() -> Option<usize> {
    // SAFETY: `sysconf` accesses no memory of the caller.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()
}

/// Resource that the system limits for each process (`getrlimit(2)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Addresses (`RLIMIT_AS`), in bytes.
    Addresses,
    /// Private writable memory (`RLIMIT_DATA`), in bytes.
    Data,
    /// Size of files that the process writes (`RLIMIT_FSIZE`), in bytes.
    FileSize,
    /// Memory that stays resident (`RLIMIT_MEMLOCK`), in bytes.
    LockedMemory,
}

impl Resource {
    /// Returns the soft limit. `None` if the resource is not limited.
    #[must_use]
    pub fn limit(self) -> Option<u64> {
        let resource = match self {
            Self::Addresses => libc::RLIMIT_AS,
            Self::Data => libc::RLIMIT_DATA,
            Self::FileSize => libc::RLIMIT_FSIZE,
            Self::LockedMemory => libc::RLIMIT_MEMLOCK,
        };
        let mut limit = libc::rlimit {
            rlim_cur: libc::RLIM_INFINITY,
            rlim_max: libc::RLIM_INFINITY,
        };
        // SAFETY: the pointer is valid for writes. If the call fails, the limit stays infinite.
        let _ = unsafe { libc::getrlimit(resource, &raw mut limit) };
        Some(limit.rlim_cur).filter(|amount| *amount != libc::RLIM_INFINITY)
    }
}

/// Describes the limits that may make the system refuse addresses or memory to this process.
#[must_use]
pub fn memory_limits() -> String {
    let mut limits = Vec::new();
    if let Some(bytes) = Resource::Addresses.limit() {
        limits.push(format!("RLIMIT_AS is {bytes} bytes"));
    }
    if let Some(bytes) = Resource::Data.limit() {
        limits.push(format!("RLIMIT_DATA is {bytes} bytes"));
    }
    if let Some(bytes) = Resource::LockedMemory.limit()
        && has_locked_memory()
    {
        limits.push(format!(
            "RLIMIT_MEMLOCK is {bytes} bytes, and the process has locked memory"
        ));
    }
    limits.push("vm.overcommit_memory may limit the memory of all processes".to_owned());
    limits.join("; ")
}

/// Returns `false` also if procfs is not mounted.
fn has_locked_memory() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    lines
        .find_map(|line| line.strip_prefix("VmLck:"))
        .is_some_and(|amount| !amount.trim().starts_with("0 "))
}
