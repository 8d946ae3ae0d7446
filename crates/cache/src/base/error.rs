//! The errors of the cache, in one type.

use std::path::{Path, PathBuf};
use std::{fmt, io};

#[cfg(not(loom))]
use pagewell_io::Forked;

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no such file.
    NotFound,
    /// The system does not allow it.
    PermissionDenied,
    /// The path names a directory, a pipe, or something else that has no bytes at positions.
    NotAFile,
    /// A setting is out of its range; the message says which.
    InvalidConfig,
    /// The page size is not 4, 8, 16, 32 or 64 KiB.
    InvalidPageSize,
    /// The file is open already, with another page size.
    PageSizeMismatch,
    /// The page begins at or past the end of the file.
    OutOfRange,
    /// The file is larger than the cache can index.
    FileTooLarge,
    /// The file has become shorter behind the cache's back.
    Truncated,
    /// No frames could be freed: every page is pinned, or pinned pages lie in between; the message says which.
    OutOfFrames,
    /// The page has as many references as it can count (2^30).
    TooManyPins,
    /// The system has no memory left.
    OutOfMemory,
    /// The file is open for reading only.
    ReadOnly,
    /// Another process, or another open file of this one, has the file open for writing.
    Busy,
    /// A page is kept from being written; the message says which.
    Held,
    /// A page is pinned to be changed.
    Locked,
    /// The call would wait for its own thread, which is in a hook of the file.
    Deadlock,
    /// The process is a child, made by `fork`, of the one that made the cache.
    Forked,
    /// The storage failed; the source says how.
    Io,
}

impl ErrorKind {
    /// The closest `errno` of the system.
    pub const fn errno(self) -> i32 {
        match self {
            Self::NotFound => libc::ENOENT,
            Self::PermissionDenied => libc::EACCES,
            Self::NotAFile => libc::EISDIR,
            Self::InvalidConfig | Self::InvalidPageSize | Self::PageSizeMismatch => libc::EINVAL,
            Self::OutOfRange => libc::ENXIO,
            Self::FileTooLarge => libc::EFBIG,
            Self::Truncated | Self::Io => libc::EIO,
            Self::OutOfFrames | Self::OutOfMemory => libc::ENOMEM,
            Self::TooManyPins => libc::EOVERFLOW,
            Self::ReadOnly | Self::Forked => libc::EBADF,
            Self::Deadlock => libc::EDEADLK,
            Self::Busy | Self::Held | Self::Locked => libc::EBUSY,
        }
    }

    const fn message(self) -> &'static str {
        match self {
            Self::NotFound => "no such file",
            Self::PermissionDenied => "permission denied",
            Self::NotAFile => "not a regular file or block device",
            Self::InvalidConfig => "a setting is out of range",
            Self::InvalidPageSize => "the page size must be 4, 8, 16, 32 or 64 KiB",
            Self::PageSizeMismatch => "the file is open already with another page size",
            Self::OutOfRange => "the page begins at or past the end of the file",
            Self::FileTooLarge => "the file is larger than the cache can index",
            Self::Truncated => "the file has become shorter since it was opened",
            Self::OutOfFrames => "no memory of the cache can be freed",
            Self::TooManyPins => "the page has as many references as it can count",
            Self::OutOfMemory => "out of memory",
            Self::ReadOnly => "the file is open for reading only",
            Self::Busy => "the file is open for writing elsewhere",
            Self::Held => "a page is held back from being written",
            Self::Locked => "a page is pinned to be changed",
            Self::Deadlock => "called from a hook of the same file, it would wait for itself",
            Self::Forked => "this process was forked from the one that made the cache",
            Self::Io => "the storage failed",
        }
    }
}

/// The operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Op {
    /// Making a cache.
    Build,
    /// Opening a file.
    Open,
    /// Reading.
    Read,
    /// Pinning a page.
    Pin,
    /// Dropping cached pages.
    Invalidate,
    /// Writing.
    Write,
    /// Giving dirty pages to the storage.
    Flush,
    /// Making writes durable.
    Sync,
    /// Changing a file's size.
    Resize,
    /// Waiting for the work in the background.
    Quiesce,
}

impl Op {
    const fn message(self) -> &'static str {
        match self {
            Self::Build => "cannot make a cache",
            Self::Open => "cannot open",
            Self::Read => "cannot read",
            Self::Pin => "cannot pin a page of",
            Self::Invalidate => "cannot invalidate pages of",
            Self::Write => "cannot write",
            Self::Flush => "cannot write back",
            Self::Sync => "cannot make durable",
            Self::Resize => "cannot change the size of",
            Self::Quiesce => "cannot stop the background work of a cache",
        }
    }
}

/// An error of the cache: its kind, the operation, the file, and the cause.
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    op: Op,
    path: Option<PathBuf>,
    detail: Option<String>,
    /// Whether the handles of the file are told of it too, each once.
    is_noted: bool,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    #[cold]
    pub(crate) fn new(kind: ErrorKind, op: Op) -> Self {
        Self(Box::new(Inner {
            kind,
            op,
            path: None,
            detail: None,
            is_noted: false,
            source: None,
        }))
    }

    /// An error of the system, classified.
    #[cold]
    pub(crate) fn from_io(op: Op, source: io::Error) -> Self {
        #[cfg(not(loom))]
        let is_forked = source.get_ref().is_some_and(|inner| inner.is::<Forked>());
        // A model has no processes.
        #[cfg(loom)]
        let is_forked = false;
        let kind = match source.kind() {
            _ if is_forked => ErrorKind::Forked,
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
            io::ErrorKind::IsADirectory | io::ErrorKind::InvalidInput if op == Op::Open => {
                ErrorKind::NotAFile
            }
            io::ErrorKind::OutOfMemory => ErrorKind::OutOfMemory,
            io::ErrorKind::ResourceBusy if op == Op::Open => ErrorKind::Busy,
            _ => ErrorKind::Io,
        };
        Self::new(kind, op).with_source(source)
    }

    pub(crate) fn with_path(mut self, path: &Path) -> Self {
        self.0.path = Some(path.to_path_buf());
        self
    }

    pub(crate) fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    pub(crate) fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// The same error, marked as one that the handles of the file are told too.
    pub(crate) fn noted(mut self) -> Self {
        self.0.is_noted = true;
        self
    }

    /// Whether the handles of the file are told of it too.
    pub(crate) fn is_noted(&self) -> bool {
        self.0.is_noted
    }

    /// The same error, seen by another operation.
    pub(crate) fn with_op(mut self, op: Op) -> Self {
        self.0.op = op;
        self
    }

    /// The kind of error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The operation that failed.
    pub fn op(&self) -> Op {
        self.0.op
    }

    /// The file of the operation, if there is one.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.op.message())?;
        if let Some(path) = &self.0.path {
            write!(f, " {}", path.display())?;
        }
        write!(f, ": {}", self.0.kind.message())?;
        if let Some(detail) = &self.0.detail {
            write!(f, " ({detail})")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("op", &self.0.op)
            .field("path", &self.0.path)
            .field("detail", &self.0.detail)
            .field("source", &self.0.source)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.source {
            Some(source) => Some(&**source),
            None => None,
        }
    }
}

impl From<Error> for io::Error {
    /// An error of the system keeps its kind; any other gets the closest one.
    fn from(error: Error) -> Self {
        let source = error.0.source.as_deref();
        let of_source = source
            .and_then(|source| source.downcast_ref::<io::Error>())
            .map(io::Error::kind);
        let kind = match (error.kind(), of_source) {
            (ErrorKind::NotAFile, _) => io::ErrorKind::IsADirectory,
            (_, Some(kind)) => kind,
            (ErrorKind::NotFound, None) => io::ErrorKind::NotFound,
            (ErrorKind::PermissionDenied, None) => io::ErrorKind::PermissionDenied,
            (
                ErrorKind::InvalidConfig
                | ErrorKind::InvalidPageSize
                | ErrorKind::PageSizeMismatch
                | ErrorKind::OutOfRange,
                None,
            ) => io::ErrorKind::InvalidInput,
            (ErrorKind::FileTooLarge, None) => io::ErrorKind::FileTooLarge,
            (ErrorKind::Truncated, None) => io::ErrorKind::UnexpectedEof,
            (ErrorKind::OutOfFrames | ErrorKind::OutOfMemory, None) => io::ErrorKind::OutOfMemory,
            (ErrorKind::ReadOnly, None) => io::ErrorKind::PermissionDenied,
            (ErrorKind::Busy | ErrorKind::Held | ErrorKind::Locked, None) => {
                io::ErrorKind::ResourceBusy
            }
            (ErrorKind::Deadlock, None) => io::ErrorKind::Deadlock,
            (ErrorKind::TooManyPins | ErrorKind::Forked | ErrorKind::Io, None) => {
                io::ErrorKind::Other
            }
        };
        Self::new(kind, error)
    }
}
