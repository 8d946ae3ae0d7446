//! The treatment of a file when it is opened for writing.

use super::direct::Direct;

/// How [`FileBackend::open_writable`](crate::FileBackend::open_writable) treats a file that is not
/// there, or is.
///
/// Without any option the file must exist, and keeps its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct FileOptions {
    missing: Missing,
    content: Content,
    direct: Direct,
    mode: Option<u32>,
}

/// What a new file lets everybody do if nothing is said, unless the process's mask forbids it.
const MODE: u32 = 0o666;

/// What may be missing: the file must be there, may be missing, or must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Missing {
    #[default]
    Fail,
    Create,
    Require,
}

/// What becomes of the bytes of a file that is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Content {
    #[default]
    Keep,
    Truncate,
}

impl FileOptions {
    /// The file must exist, and keeps its bytes.
    pub const fn new() -> Self {
        Self {
            missing: Missing::Fail,
            content: Content::Keep,
            direct: Direct::Never,
            mode: None,
        }
    }

    /// A file that is missing is created, empty.
    pub const fn create(mut self) -> Self {
        self.missing = Missing::Create;
        self
    }

    /// The file must be missing, and is created, empty.
    pub const fn create_new(mut self) -> Self {
        self.missing = Missing::Require;
        self
    }

    /// A file that is there loses its bytes; not before it is locked, so no other writer's.
    pub const fn truncate(mut self) -> Self {
        self.content = Content::Truncate;
        self
    }

    /// Whether the file is read and written past the operating system's cache; [`Direct::Never`] if nothing is said.
    pub const fn direct(mut self, direct: Direct) -> Self {
        self.direct = direct;
        self
    }

    /// The permissions of a file that is created, as `open(2)` has them: those of the process's mask (`umask`) are taken away. 0666 if nothing is said. A file that is
    /// there keeps its own.
    pub const fn mode(mut self, bits: u32) -> Self {
        self.mode = Some(bits);
        self
    }

    /// The permissions of a file that is created.
    pub(super) fn permissions(self) -> libc::c_uint {
        self.mode.unwrap_or(MODE)
    }

    /// What was said of direct transfers.
    pub(super) const fn asked(self) -> Direct {
        self.direct
    }

    /// Whether a file that is there loses its bytes.
    pub const fn truncates(self) -> bool {
        matches!(self.content, Content::Truncate)
    }

    /// Whether the file must be missing.
    pub const fn requires_new(self) -> bool {
        matches!(self.missing, Missing::Require)
    }

    /// The flags of `open` that ask for this, except for truncation, which has to wait for the lock.
    pub(super) fn flags(self) -> libc::c_int {
        match self.missing {
            Missing::Fail => 0,
            Missing::Create => libc::O_CREAT,
            Missing::Require => libc::O_CREAT | libc::O_EXCL,
        }
    }
}
