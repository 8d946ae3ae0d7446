//! The errors of the cache, in one type.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

#[cfg(not(loom))]
use pagewell_io::{Forked, identity::AmbiguousFile};

/// Declares [`ErrorKind`]: the kinds, the closest `errno` of each, and its text.
macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $name:ident = $errno:ident, $message:literal;)*) => {
        /// The kind of an error.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorKind {
            $($(#[doc = $doc])* $name,)*
        }

        impl ErrorKind {
            /// All kinds of this version.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The closest `errno` of the system.
            pub const fn errno(self) -> i32 {
                match self {
                    $(Self::$name => libc::$errno,)*
                }
            }

            const fn message(self) -> &'static str {
                match self {
                    $(Self::$name => $message,)*
                }
            }
        }
    };
}

kinds! {
    /// There is no such file.
    NotFound = ENOENT, "no such file";
    /// `create_new` was set, and the file exists.
    AlreadyExists = EEXIST, "the file exists";
    /// The path is too long, contains a NUL byte, passes through a file, or has more than 40 symbolic links.
    InvalidPath = ENAMETOOLONG, "invalid path";
    /// The system denies access, or the file system is mounted read-only.
    PermissionDenied = EACCES, "permission denied";
    /// The identity of the file is ambiguous: its device and inode number are those of another open file, or change while the file is
    /// open. The file was neither read nor changed.
    AmbiguousFile = ENOTUNIQ, "the file's identity is ambiguous";
    /// The path names a directory, a pipe, or something else that has no bytes at positions.
    NotAFile = EISDIR, "not a regular file or block device";
    /// A setting is out of its range; the message says which.
    InvalidConfig = EINVAL, "a setting is out of range";
    /// The page size is not 4, 8, 16, 32 or 64 KiB.
    InvalidPageSize = EINVAL, "the page size must be 4, 8, 16, 32 or 64 KiB";
    /// The file is open already, with another page size.
    PageSizeMismatch = EINVAL, "the file is open already with another page size";
    /// The file is open already, with another hook or another mode of writeback: see the message.
    OptionsMismatch = EINVAL, "the file is open already with other options";
    /// The page begins at or past the end of the file.
    OutOfRange = ENXIO, "the page begins at or past the end of the file";
    /// The file is larger than the cache can index.
    FileTooLarge = EFBIG, "the file is larger than the cache can index";
    /// The file has become shorter behind the cache's back.
    Truncated = EIO, "the file has become shorter since it was opened";
    /// No frames could be freed; the message says what holds them (dirty, pinned, of spaces, and so on), with numbers. Or an append
    /// that can never fit: it says how much would.
    OutOfFrames = ENOMEM, "no memory of the cache can be freed";
    /// What the page says leads nowhere: the closure of a view ([`File::view`](crate::File::view)) has left with `Torn`, though
    /// the page did not change; or it has looked more often than any way through a page takes.
    Malformed = EUCLEAN, "what the page says leads nowhere";
    /// What the storage has is not what was written, as far as the program's hooks on bytes can tell
    /// ([`PageHooks::after_read`](crate::PageHooks::after_read)); the error names the page, and nothing of it was shown. Or the storage has a size that no file
    /// with such hooks has.
    Corrupt = EBADMSG, "the storage has not what was written";
    /// The page has as many references as it can count (2^30).
    TooManyPins = EOVERFLOW, "the page has as many references as it can count";
    /// The system has no memory left.
    OutOfMemory = ENOMEM, "out of memory";
    /// A limit on open files or threads, of the process or of the system, is reached; the message names it.
    LimitReached = EMFILE, "resource limit reached";
    /// The file is open for reading only.
    ReadOnly = EBADF, "the file is open for reading only";
    /// The file is open for writing in another process or by another open file description of this one, or is being executed.
    Busy = EBUSY, "the file is open for writing elsewhere";
    /// The file has as many dirty pages as it may have, and they cannot be written back; the message says why.
    Throttled = EAGAIN, "the file has as many dirty pages as it may have";
    /// A page is pinned to be changed; the message may say which.
    Locked = EBUSY, "a page is pinned to be changed";
    /// The call would wait for its own thread, which is in a hook of the file, or has the page pinned to be changed; the message
    /// says which.
    Deadlock = EDEADLK, "the call would wait for its own thread";
    /// The program's hook refused a page; the source is the hook's error.
    Refused = ECANCELED, "the program's hook refused a page";
    /// The process is a child, made by `fork`, of the one that made the cache.
    Forked = EBADF, "this process was forked from the one that made the cache";
    /// The requested facility is unavailable and fallback is disabled: an engine, direct transfers, or file locks. The message says why.
    Unavailable = EOPNOTSUPP, "the system does not have what was asked for";
    /// The storage failed; the source says how.
    Io = EIO, "the storage failed";
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
        let kind = of_files(&source).unwrap_or_else(|| match source.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
            io::ErrorKind::OutOfMemory => ErrorKind::OutOfMemory,
            _ => ErrorKind::Io,
        });
        Self::new(kind, op).with_source(source)
    }

    /// Classifies an error of opening the file at `path`.
    #[cold]
    #[cfg(not(loom))]
    pub(crate) fn of_open(source: io::Error, path: &Path) -> Self {
        let (kind, detail) = of_opening(&source);
        let error = match kind {
            Some(kind) => Self::new(kind, Op::Open).with_source(source),
            None => Self::from_io(Op::Open, source),
        };
        let error = error.with_path(path);
        match detail {
            Some(detail) => error.with_detail(detail),
            None => error,
        }
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

/// Classifies an error that a file backend generates itself.
fn of_files(error: &io::Error) -> Option<ErrorKind> {
    // A model has neither processes nor files.
    #[cfg(not(loom))]
    match error.get_ref()? {
        inner if inner.is::<Forked>() => return Some(ErrorKind::Forked),
        inner if inner.is::<AmbiguousFile>() => return Some(ErrorKind::AmbiguousFile),
        _ => {}
    }
    let _ = error;
    None
}

/// Classifies an error of opening a file; the second part names the cause and the remedy.
#[cfg(not(loom))]
fn of_opening(error: &io::Error) -> (Option<ErrorKind>, Option<&'static str>) {
    let (kind, detail) = match (error.kind(), error.raw_os_error()) {
        (_, Some(libc::EMFILE)) => (
            ErrorKind::LimitReached,
            Some("too many open files in this process: raise RLIMIT_NOFILE, or close some"),
        ),
        (_, Some(libc::ENFILE)) => (
            ErrorKind::LimitReached,
            Some("too many open files in the system: raise the sysctl fs.file-max"),
        ),
        (_, Some(libc::ELOOP))
        | (io::ErrorKind::InvalidFilename | io::ErrorKind::NotADirectory, _) => {
            (ErrorKind::InvalidPath, None)
        }
        (io::ErrorKind::AlreadyExists, _) => (ErrorKind::AlreadyExists, None),
        // EINVAL of the kernel has other causes.
        (io::ErrorKind::IsADirectory, _) | (io::ErrorKind::InvalidInput, None) => {
            (ErrorKind::NotAFile, None)
        }
        (io::ErrorKind::ReadOnlyFilesystem, _) => (ErrorKind::PermissionDenied, None),
        (io::ErrorKind::ResourceBusy, _) => (ErrorKind::Busy, None),
        (io::ErrorKind::ExecutableFileBusy, _) => (ErrorKind::Busy, Some("it is being executed")),
        (io::ErrorKind::Unsupported, _) => (ErrorKind::Unavailable, None),
        _ => return (None, None),
    };
    (Some(kind), detail)
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
            (ErrorKind::AlreadyExists, None) => io::ErrorKind::AlreadyExists,
            (ErrorKind::InvalidPath, None) => io::ErrorKind::InvalidFilename,
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
                ErrorKind::TooManyPins
                | ErrorKind::LimitReached
                | ErrorKind::AmbiguousFile
                | ErrorKind::Forked
                | ErrorKind::Io
                | ErrorKind::Refused,
                None,
            ) => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}
