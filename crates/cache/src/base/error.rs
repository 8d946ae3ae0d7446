use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use pagewell_io::{Forked, identity::AmbiguousFile};

macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $name:ident = $errno:ident, $io:ident, $message:literal;)*) => {
        /// Kind of an error.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorKind {
            $($(#[doc = $doc])* $name,)*
        }

        impl ErrorKind {
            /// All kinds of this version.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns the closest `errno` of the operating system.
            pub const fn errno(self) -> i32 {
                match self {
                    $(Self::$name => libc::$errno,)*
                }
            }

            const fn io_kind(self) -> io::ErrorKind {
                match self {
                    $(Self::$name => io::ErrorKind::$io,)*
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
    /// The file does not exist.
    NotFound = ENOENT, NotFound, "no such file";
    /// `create_new` was set, and the file exists.
    AlreadyExists = EEXIST, AlreadyExists, "the file exists";
    /// The path is too long, has a NUL byte, passes through a file, or has over 40 symbolic links.
    InvalidPath = ENAMETOOLONG, InvalidFilename, "invalid path";
    /// The operating system denies access, or the file system is mounted read-only.
    PermissionDenied = EACCES, PermissionDenied, "permission denied";
    /// The identity of the file is ambiguous: its device and inode number are those of another open
    /// file, or change while the file is open. The file was neither read nor changed.
    AmbiguousFile = ENOTUNIQ, Other, "the file's identity is ambiguous";
    /// The path names a directory, a pipe, or another object without random access or a size.
    NotAFile = EISDIR, IsADirectory, "not a regular file or block device";
    /// A setting is out of range; the message names it.
    InvalidConfig = EINVAL, InvalidInput, "a setting is out of range";
    /// The page size is not 4, 8, 16, 32 or 64 KiB.
    InvalidPageSize = EINVAL, InvalidInput, "the page size must be 4, 8, 16, 32 or 64 KiB";
    /// The file is open already, with another page size.
    PageSizeMismatch = EINVAL, InvalidInput, "the file is already open with another page size";
    /// The file is already open with another option, which the message names.
    OptionsMismatch = EINVAL, InvalidInput, "the file is already open with other options";
    /// The page begins at or past the end of the file, or a read that must return all of its bytes
    /// ([`File::read_exact_at`](crate::File::read_exact_at)) extends past it.
    OutOfRange = ENXIO, InvalidInput, "past the end of the file";
    /// The file is, or would be, larger than the cache can index, or than its device, its file
    /// system or the limit of the process (RLIMIT_FSIZE) allows. The message names the limit.
    FileTooLarge = EFBIG, FileTooLarge, "the file is too large";
    /// The file was truncated outside the cache.
    Truncated = EIO, UnexpectedEof, "the file was truncated since it was opened";
    /// No frame could be freed (the message gives the number of frames in each state), or an append
    /// is longer than the number of bytes of one file that may be dirty (the message states it).
    OutOfFrames = ENOMEM, OutOfMemory, "no frame of the cache can be freed";
    /// The closure of a view ([`File::view`](crate::File::view)) returned `Torn` although the page
    /// did not change, or made more accesses than any valid traversal of a page takes.
    Malformed = EUCLEAN, InvalidData, "the page's contents are inconsistent";
    /// The stored bytes are not those that were written, as detected by the program's page codec
    /// ([`PageHooks::after_read`](crate::PageHooks::after_read)). The error names the page, and no
    /// reader saw its bytes. Or the stored size is not valid for a file with a page codec.
    Corrupt = EBADMSG, InvalidData, "the stored bytes failed verification";
    /// The page has the maximum number of references (2^30).
    TooManyPins = EOVERFLOW, Other, "the page has the maximum number of references";
    /// The operating system refused memory.
    OutOfMemory = ENOMEM, OutOfMemory, "out of memory";
    /// A limit on open files or threads, which the message names, is reached.
    LimitReached = EMFILE, Other, "resource limit reached";
    /// The file or the handle is open for reading only.
    ReadOnly = EBADF, PermissionDenied, "the file is open for reading only";
    /// The file is open for writing through another open file description, or is being executed.
    Busy = EBUSY, ResourceBusy, "the file is open for writing elsewhere";
    /// The file is at its quota of dirty pages, which cannot be written back (see the message).
    Throttled = EAGAIN, WouldBlock, "the file is at its quota of dirty pages";
    /// A page is pinned for writing; the message may name it.
    Locked = EBUSY, ResourceBusy, "a page is pinned for writing";
    /// The call would wait for its own thread, because the thread is in a callback of the file or
    /// in a page codec of any file, or has the page pinned for writing. The message names the case.
    Deadlock = EDEADLK, Deadlock, "the call would wait for its own thread";
    /// A callback or page codec of the program refused a page; the source is its error.
    Refused = ECANCELED, Other, "the program's callback refused a page";
    /// The process is a fork of the one that created the cache.
    Forked = EBADF, Other, "this process is a fork of the one that created the cache";
    /// A requested engine, direct I/O or file locks are unavailable; the message gives the reason.
    Unavailable = EOPNOTSUPP, Unsupported, "the requested facility is unavailable";
    /// The backend failed; the source is its error.
    Io = EIO, Other, "the backend failed";
}

/// Operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Op {
    /// Creation of a cache.
    Build,
    /// Open of a file.
    Open,
    /// Read.
    Read,
    /// Pin of a page.
    Pin,
    /// View of a page.
    View,
    /// Removal of cached pages.
    Invalidate,
    /// Write.
    Write,
    /// Writeback of dirty pages.
    Flush,
    /// Sync: making writes durable.
    Sync,
    /// Change of a file's size.
    Resize,
    /// Wait for background work.
    Quiesce,
}

impl Op {
    const fn message(self) -> &'static str {
        match self {
            Self::Build => "cannot create a cache",
            Self::Open => "cannot open",
            Self::Read => "cannot read",
            Self::Pin => "cannot pin a page of",
            Self::View => "cannot view a page of",
            Self::Invalidate => "cannot invalidate pages of",
            Self::Write => "cannot write",
            Self::Flush => "cannot write back",
            Self::Sync => "cannot sync",
            Self::Resize => "cannot change the size of",
            Self::Quiesce => "cannot stop the background work of a cache",
        }
    }
}

/// Failure of a writeback. It is reported once to each handle of the file.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) cause: Cause,
    pub(crate) error: io::Error,
    pub(crate) page: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Storage,
    /// A page has too many references to be written to the backend.
    Pins,
    Hook,
}

impl Cause {
    /// All causes, in the order in which they are reported to handles.
    pub(crate) const ALL: [Self; 3] = [Self::Storage, Self::Pins, Self::Hook];
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let (cause, page) = (Cause::Storage, None);
        Self { cause, error, page }
    }
}

/// Error of the cache, with its kind, the operation, the file, and the cause.
pub struct Error(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    kind: ErrorKind,
    op: Op,
    path: Option<PathBuf>,
    detail: Option<String>,
    page: Option<u64>,
    /// `Some` if the error is also reported to each handle of the file, once.
    noted: Option<Cause>,
    /// For `OutOfFrames`: number of frames that were not clean.
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

    #[cold]
    pub(crate) fn of_open(source: io::Error, path: &Path) -> Self {
        let (kind, detail) = of_opening(&source);
        let error = match kind {
            Some(kind) => Self::new(kind, Op::Open).with_source(source),
            None => Self::from_io(Op::Open, source),
        };
        let mut error = error.with_path(path);
        error.0.detail = detail.map(str::to_owned);
        error
    }

    #[cold]
    pub(crate) fn from_failure(op: Op, failure: Failure) -> Self {
        let Failure { cause, error, page } = failure;
        let mut error = match cause {
            Cause::Storage => Self::from_io(op, error),
            Cause::Pins => Self::new(ErrorKind::TooManyPins, op).with_source(error),
            Cause::Hook => Self::new(ErrorKind::Refused, op).with_source(error),
        };
        error.0.detail = remedy(&error).map(str::to_owned);
        error.0.page = page;
        error
    }

    pub(crate) fn with_path(mut self, path: &Path) -> Self {
        self.0.path = Some(path.to_path_buf());
        self
    }

    pub(crate) fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    pub(crate) fn with_unclean(mut self, nr_frames: usize) -> Self {
        self.0.nr_unclean = nr_frames;
        self
    }

    pub(crate) fn nr_unclean(&self) -> usize {
        self.0.nr_unclean
    }

    pub(crate) fn and_detail(mut self, detail: impl fmt::Display) -> Self {
        self.0.detail = Some(match self.0.detail.take() {
            Some(before) => format!("{before}; {detail}"),
            None => detail.to_string(),
        });
        self
    }

    /// Whether a retry may succeed, because the backend or the program's code caused the failure.
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

    pub(crate) fn with_page(mut self, page: u64) -> Self {
        self.0.page = Some(page);
        self
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        let source = std::error::Error::source(self).and_then(|error| error.downcast_ref());
        source.is_some_and(|error: &io::Error| error.kind() == io::ErrorKind::Interrupted)
    }

    pub(crate) fn noted(mut self, cause: impl Into<Option<Cause>>) -> Self {
        self.0.noted = cause.into();
        self
    }

    pub(crate) fn noted_cause(&self) -> Option<Cause> {
        self.0.noted
    }

    pub(crate) fn with_op(mut self, op: Op) -> Self {
        self.0.op = op;
        self
    }

    /// Returns a copy for another caller of the same operation, with the same source.
    #[cold]
    pub(crate) fn copied(&self) -> Self {
        Self(self.0.clone())
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the operation that failed.
    pub fn op(&self) -> Op {
        self.0.op
    }

    /// Returns the path of the file, if the operation has one.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Returns the number of the page that the error concerns, if it concerns a single one.
    pub fn page(&self) -> Option<u64> {
        self.0.page
    }
}

fn remedy(error: &Error) -> Option<&'static str> {
    let source = std::error::Error::source(error)?.downcast_ref::<io::Error>()?;
    match source.kind() {
        io::ErrorKind::FileTooLarge => {
            Some("past a limit on the size of files: raise it (RLIMIT_FSIZE), or truncate the file")
        }
        io::ErrorKind::StorageFull => Some("free some space"),
        io::ErrorKind::QuotaExceeded => Some("free some space, or raise the quota"),
        _ => None,
    }
}

fn of_files(error: &io::Error) -> Option<ErrorKind> {
    match error.get_ref()? {
        inner if inner.is::<Forked>() => Some(ErrorKind::Forked),
        inner if inner.is::<AmbiguousFile>() => Some(ErrorKind::AmbiguousFile),
        _ => None,
    }
}

/// Classifies an error of opening a file. The returned text names the cause and the remedy.
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
        // `InvalidInput` only without an error number: the kernel's EINVAL has other causes.
        (io::ErrorKind::IsADirectory, _) | (io::ErrorKind::InvalidInput, None) => {
            (ErrorKind::NotAFile, None)
        }
        (io::ErrorKind::ReadOnlyFilesystem, _) => (ErrorKind::PermissionDenied, None),
        (io::ErrorKind::ResourceBusy, _) => (ErrorKind::Busy, None),
        (io::ErrorKind::ExecutableFileBusy, _) => (ErrorKind::Busy, Some("being executed")),
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
        let source = self.0.source.as_deref()?;
        Some(source)
    }
}

impl From<Error> for io::Error {
    /// Keeps the kind of an I/O error, except for `NotAFile`. Other errors get the closest kind.
    fn from(error: Error) -> Self {
        let source = error.0.source.as_deref();
        let of_source = source
            .and_then(|source| source.downcast_ref::<io::Error>())
            .map(io::Error::kind);
        let kind = match (error.kind(), of_source) {
            (ErrorKind::NotAFile, _) => io::ErrorKind::IsADirectory,
            (_, Some(kind)) => kind,
            (ErrorKind::OutOfRange, None) if error.op() == Op::Read => io::ErrorKind::UnexpectedEof,
            (kind, None) => kind.io_kind(),
        };
        Self::new(kind, error)
    }
}
