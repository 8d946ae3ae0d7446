//! The errors of the cache, in one type.

use std::path::{Path, PathBuf};
use std::sync::Arc;
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
    /// The file is open already, with another hook or another mode of writeback: see the message.
    OptionsMismatch,
    /// The page begins at or past the end of the file.
    OutOfRange,
    /// The file is larger than the cache can index.
    FileTooLarge,
    /// The file has become shorter behind the cache's back.
    Truncated,
    /// No frames could be freed; the message says what holds them (dirty, pinned, of spaces, and so on), with numbers. Or an append
    /// that can never fit: it says how much would.
    OutOfFrames,
    /// What the page says leads nowhere: the closure of a view ([`File::view`](crate::File::view)) has left with `Torn`, though
    /// the page did not change; or it has looked more often than any way through a page takes.
    Malformed,
    /// What the storage has is not what was written, as far as the program's hooks on bytes can tell
    /// ([`PageHooks::after_read`](crate::PageHooks::after_read)); the error names the page, and nothing of it was shown. Or the storage has a size that no file
    /// with such hooks has.
    Corrupt,
    /// The page has as many references as it can count (2^30).
    TooManyPins,
    /// The system has no memory left.
    OutOfMemory,
    /// The file is open for reading only.
    ReadOnly,
    /// Another process, or another open file of this one, has the file open for writing.
    Busy,
    /// The file has as many dirty pages as it may have, and they cannot be written back; the message says why.
    Throttled,
    /// A page is pinned to be changed; the message may say which.
    Locked,
    /// The call would wait for its own thread, which is in a hook of the file, or has the page pinned to be changed; the message
    /// says which.
    Deadlock,
    /// The program's hook refused a page; the source is the hook's error.
    Refused,
    /// The process is a child, made by `fork`, of the one that made the cache.
    Forked,
    /// The system has not what was asked for, and nothing may stand in for it: an engine, or direct transfers. The message says why.
    Unavailable,
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
            Self::InvalidConfig
            | Self::InvalidPageSize
            | Self::PageSizeMismatch
            | Self::OptionsMismatch => libc::EINVAL,
            Self::OutOfRange => libc::ENXIO,
            Self::FileTooLarge => libc::EFBIG,
            Self::Truncated | Self::Io => libc::EIO,
            Self::OutOfFrames | Self::OutOfMemory => libc::ENOMEM,
            Self::Malformed => libc::EUCLEAN,
            Self::Corrupt => libc::EBADMSG,
            Self::Unavailable => libc::EOPNOTSUPP,
            Self::TooManyPins => libc::EOVERFLOW,
            Self::ReadOnly | Self::Forked => libc::EBADF,
            Self::Throttled => libc::EAGAIN,
            Self::Deadlock => libc::EDEADLK,
            Self::Refused => libc::ECANCELED,
            Self::Busy | Self::Locked => libc::EBUSY,
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
            Self::OptionsMismatch => "the file is open already with other options",
            Self::OutOfRange => "the page begins at or past the end of the file",
            Self::FileTooLarge => "the file is larger than the cache can index",
            Self::Truncated => "the file has become shorter since it was opened",
            Self::OutOfFrames => "no memory of the cache can be freed",
            Self::Malformed => "what the page says leads nowhere",
            Self::Corrupt => "the storage has not what was written",
            Self::TooManyPins => "the page has as many references as it can count",
            Self::OutOfMemory => "out of memory",
            Self::ReadOnly => "the file is open for reading only",
            Self::Busy => "the file is open for writing elsewhere",
            Self::Throttled => "the file has as many dirty pages as it may have",
            Self::Locked => "a page is pinned to be changed",
            Self::Deadlock => "the call would wait for its own thread",
            Self::Refused => "the program's hook refused a page",
            Self::Forked => "this process was forked from the one that made the cache",
            Self::Unavailable => "the system does not have what was asked for",
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
    /// Looking at a page where it is.
    View,
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
            Self::View => "cannot view a page of",
            Self::Invalidate => "cannot invalidate pages of",
            Self::Write => "cannot write",
            Self::Flush => "cannot write back",
            Self::Sync => "cannot make durable",
            Self::Resize => "cannot change the size of",
            Self::Quiesce => "cannot stop the background work of a cache",
        }
    }
}

/// A failure to write pages back, of which every handle of the file is told once.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) cause: Cause,
    pub(crate) error: io::Error,
    /// The page that is in the way, if it is known.
    pub(crate) page: Option<u64>,
}

/// Whose failure it is. Handles are told of the failures of each separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The storage's.
    Storage,
    /// A page has too many references to be given to the storage.
    Pins,
    /// The program's hook refused a page.
    Hook,
}

impl Cause {
    /// In the order in which handles are told.
    pub(crate) const ALL: [Self; 3] = [Self::Storage, Self::Pins, Self::Hook];
}

impl From<io::Error> for Failure {
    /// The storage's.
    fn from(error: io::Error) -> Self {
        let cause = Cause::Storage;
        Self {
            cause,
            error,
            page: None,
        }
    }
}

/// An error of the cache: its kind, the operation, the file, and the cause.
pub struct Error(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    kind: ErrorKind,
    op: Op,
    path: Option<PathBuf>,
    detail: Option<String>,
    /// The page that is in the way.
    page: Option<u64>,
    /// Some if the handles of the file are told of it too, each once.
    noted: Option<Cause>,
    /// How many frames were in the way that were not clean, if the error is for lack of frames.
    nr_unclean: usize,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    #[cold]
    pub(crate) fn new(kind: ErrorKind, op: Op) -> Self {
        Self(Box::new(Inner {
            kind,
            op,
            path: None,
            detail: None,
            page: None,
            noted: None,
            nr_unclean: 0,
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

    /// A failure to write pages back.
    #[cold]
    pub(crate) fn from_failure(op: Op, failure: Failure) -> Self {
        let Failure { cause, error, page } = failure;
        let error = match cause {
            Cause::Storage => Self::from_io(op, error),
            Cause::Pins => Self::new(ErrorKind::TooManyPins, op).with_source(error),
            Cause::Hook => Self::new(ErrorKind::Refused, op).with_source(error),
        };
        match page {
            Some(page) => error.with_page(page),
            None => error,
        }
    }

    pub(crate) fn with_path(mut self, path: &Path) -> Self {
        self.0.path = Some(path.to_path_buf());
        self
    }

    pub(crate) fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    /// For lack of frames, of which so many are not clean.
    pub(crate) fn with_unclean(mut self, nr_frames: usize) -> Self {
        self.0.nr_unclean = nr_frames;
        self
    }

    /// How many frames were not clean when there were none to be had.
    pub(crate) fn nr_unclean(&self) -> usize {
        self.0.nr_unclean
    }

    /// The same error, with `detail` after the detail that it has.
    pub(crate) fn and_detail(mut self, detail: impl fmt::Display) -> Self {
        self.0.detail = Some(match self.0.detail.take() {
            Some(before) => format!("{before}; {detail}"),
            None => detail.to_string(),
        });
        self
    }

    /// Whether it may pass by itself: the storage, or the hook, has failed.
    pub(crate) fn may_pass(&self) -> bool {
        let source = std::error::Error::source(self);
        let is_of_system = source.is_some_and(|source| source.is::<io::Error>());
        is_of_system && self.kind() != ErrorKind::Forked
    }

    pub(crate) fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// The same error, of this page.
    pub(crate) fn with_page(mut self, page: u64) -> Self {
        self.0.page = Some(page);
        self
    }

    /// The page that is in the way, if it is known.
    pub(crate) fn page(&self) -> Option<u64> {
        self.0.page
    }

    /// The same error, marked as one that the handles of the file are told too.
    pub(crate) fn noted(mut self, cause: Cause) -> Self {
        self.0.noted = Some(cause);
        self
    }

    /// Whose failure it is, if the handles of the file are told of it too.
    pub(crate) fn noted_cause(&self) -> Option<Cause> {
        self.0.noted
    }

    /// The same error, seen by another operation.
    pub(crate) fn with_op(mut self, op: Op) -> Self {
        self.0.op = op;
        self
    }

    /// The same error, for another caller that waited for the same work; both have one source.
    #[cold]
    pub(crate) fn copied(&self) -> Self {
        Self(self.0.clone())
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
        match (self.0.page, &self.0.detail) {
            (Some(page), Some(detail)) => write!(f, " (page {page}, {detail})"),
            (Some(page), None) => write!(f, " (page {page})"),
            (None, Some(detail)) => write!(f, " ({detail})"),
            (None, None) => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("op", &self.0.op)
            .field("path", &self.0.path)
            .field("page", &self.0.page)
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
                | ErrorKind::OptionsMismatch
                | ErrorKind::OutOfRange,
                None,
            ) => io::ErrorKind::InvalidInput,
            (ErrorKind::Malformed | ErrorKind::Corrupt, None) => io::ErrorKind::InvalidData,
            (ErrorKind::FileTooLarge, None) => io::ErrorKind::FileTooLarge,
            (ErrorKind::Truncated, None) => io::ErrorKind::UnexpectedEof,
            (ErrorKind::OutOfFrames | ErrorKind::OutOfMemory, None) => io::ErrorKind::OutOfMemory,
            (ErrorKind::ReadOnly, None) => io::ErrorKind::PermissionDenied,
            (ErrorKind::Busy | ErrorKind::Locked, None) => io::ErrorKind::ResourceBusy,
            (ErrorKind::Throttled, None) => io::ErrorKind::WouldBlock,
            (ErrorKind::Deadlock, None) => io::ErrorKind::Deadlock,
            (ErrorKind::Unavailable, None) => io::ErrorKind::Unsupported,
            (
                ErrorKind::TooManyPins | ErrorKind::Forked | ErrorKind::Io | ErrorKind::Refused,
                None,
            ) => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}
