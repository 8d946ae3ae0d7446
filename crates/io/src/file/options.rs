//! Options for opening a file for writing.

use std::time::Duration;

use super::direct::Direct;

/// Options of [`FileBackend::open_writable`](crate::FileBackend::open_writable). By default the
/// file must exist, and its bytes are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct FileOptions {
    missing: Missing,
    truncates: bool,
    direct: Direct,
    mode: Option<u32>,
    lock: FileLock,
}

/// Exclusion of other writers of a file. Readers acquire no lock.
///
/// The lock is an open file description lock (`F_OFD_SETLK`) of the whole file. It excludes writers
/// with a lock, of any cache or process, and programs that use such locks or POSIX locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileLock {
    /// Locks the file. Fails at once if it is locked.
    #[default]
    Exclusive,
    /// Locks the file. If it is locked, retries every few milliseconds for this time, for example
    /// until the kernel has ended the requests of a crashed predecessor, which keep the lock.
    Within(Duration),
    /// Acquires no lock. The program must exclude other writers, which would overwrite pages.
    None,
}

/// Default permissions before the umask.
const MODE: u32 = 0o666;

/// Treatment of a missing file. `Require` creates the file, and fails if it exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Missing {
    #[default]
    Fail,
    Create,
    Require,
}

impl FileOptions {
    /// Creates the default options.
    pub const fn new() -> Self {
        Self {
            missing: Missing::Fail,
            truncates: false,
            direct: Direct::Never,
            mode: None,
            lock: FileLock::Exclusive,
        }
    }

    /// Creates the file, empty, if it is missing.
    pub const fn create(mut self) -> Self {
        self.missing = Missing::Create;
        self
    }

    /// Creates the file, empty. The open fails if the file exists.
    pub const fn create_new(mut self) -> Self {
        self.missing = Missing::Require;
        self
    }

    /// Truncates an existing file to zero bytes, after it is locked against other writers.
    pub const fn truncate(mut self) -> Self {
        self.truncates = true;
        self
    }

    /// Sets the policy for direct I/O. Default: [`Direct::Never`].
    pub const fn direct(mut self, direct: Direct) -> Self {
        self.direct = direct;
        self
    }

    /// Sets the permissions of a created file, before the umask, as in `open(2)`. Default: 0666.
    pub const fn mode(mut self, bits: u32) -> Self {
        self.mode = Some(bits);
        self
    }

    /// Returns the options for a file that exists: without those that create it.
    pub const fn existing(mut self) -> Self {
        self.missing = Missing::Fail;
        self
    }

    /// Sets how other writers are excluded. Default: [`FileLock::Exclusive`].
    pub const fn lock(mut self, lock: FileLock) -> Self {
        self.lock = lock;
        self
    }

    /// Returns how other writers are excluded.
    pub const fn file_lock(self) -> FileLock {
        self.lock
    }

    pub(super) fn permissions(self) -> libc::c_uint {
        self.mode.unwrap_or(MODE)
    }

    pub(super) const fn asked(self) -> Direct {
        self.direct
    }

    /// Returns `true` if an existing file is truncated.
    pub const fn truncates(self) -> bool {
        self.truncates
    }

    /// Returns `true` if the file must be missing.
    pub const fn requires_new(self) -> bool {
        matches!(self.missing, Missing::Require)
    }

    /// Returns the flags of `open(2)` that create the file. Truncation has to follow the lock.
    pub(super) fn flags(self) -> libc::c_int {
        match self.missing {
            Missing::Fail => 0,
            Missing::Create => libc::O_CREAT,
            Missing::Require => libc::O_CREAT | libc::O_EXCL,
        }
    }
}
