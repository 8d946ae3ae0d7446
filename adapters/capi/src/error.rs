//! Errors: their numbers, their messages, and the last error of each thread.
//!
//! - Owns: `pw_error`, the last error of each thread.
//! - Calls: nothing of this crate.
//! - Promises: the numbers are stable. The message of a thread's last error stays valid until the
//!   next error of the thread, or until the thread ends.

use std::borrow::Cow;
use std::cell::RefCell;
use std::error::Error as _;
use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt::Write as _;
use std::io;

use library::{Error, ErrorKind};

/// Declares the messages of `pw_error`.
macro_rules! errors {
    ($($(#[doc = $doc:literal])* $name:ident = $number:literal, $text:literal;)*) => {
        /// Name, value, number and message of each code, for tests.
        #[cfg(test)]
        pub(crate) const ALL: &[(&str, pw_error, c_int, &CStr)] =
            &[$((stringify!($name), pw_error::$name, $number, $text)),*];

        const fn text_of(code: c_int) -> Option<&'static CStr> {
            match code {
                $($number => Some($text),)*
                _ => None,
            }
        }
    };
}

/// Result of a call: 0, or one of these error codes. The numbers are stable. None of them is an
/// `errno`; ::pw_last_errno returns the `errno` of the last error.
///
/// A later version may have more codes, and may return them from the same calls.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // A test checks the message of each.
#[allow(non_camel_case_types, clippy::upper_case_acronyms)]
pub enum pw_error {
    /// Success.
    PW_OK = 0,

    /// No such handle, pin, edit or request: it is null, was closed, freed or ended, is of another
    /// kind, or never existed. Nothing was done.
    PW_ERROR_HANDLE = 5001,
    /// A fault of the library: an internal assertion failed. The handle of the call may be dead: it
    /// can then only be closed.
    PW_ERROR_PANIC = 5002,
    /// An argument is invalid: null where an object is required, a negative offset, an unknown
    /// flag. Nothing was done.
    PW_ERROR_ARGUMENT = 5003,
    /// The handle is in use, and was not closed: it has pinned or edited pages, or requests in
    /// flight, or a call with it is in progress. Also returned by calls with the handle while
    /// another thread is closing it.
    PW_ERROR_BUSY = 5004,
    /// Only the thread that began the edit can do this.
    PW_ERROR_THREAD = 5005,
    /// The maximum number of handles of this kind is open, or all slots for pins are allocated.
    PW_ERROR_LIMIT = 5006,
    /// The request was canceled: ::pw_queue_cancel.
    PW_ERROR_CANCELED = 5007,
    /// The page has changed since the view began, or was evicted: the bytes read must not be used.
    PW_ERROR_CHANGED = 5008,
    /// Another thread may be about to change the page, or is writing it back. Validate again, or
    /// begin another view.
    PW_ERROR_CHANGING = 5009,

    /// The file does not exist.
    PW_ERROR_NOT_FOUND = 5101,
    /// The system denies access, or the file system is mounted read-only.
    PW_ERROR_PERMISSION = 5102,
    /// The path names a directory, a pipe, or another object without random access, or a file
    /// without a size, such as those of procfs.
    PW_ERROR_NOT_A_FILE = 5103,
    /// A setting is out of range; ::pw_last_error names it.
    PW_ERROR_CONFIG = 5104,
    /// The page size is not 4, 8, 16, 32 or 64 KiB.
    PW_ERROR_PAGE_SIZE = 5105,
    /// The file is already open in the cache with another page size.
    PW_ERROR_PAGE_SIZE_MISMATCH = 5106,
    /// The file is already open in the cache with other options; ::pw_last_error names them.
    PW_ERROR_OPTIONS_MISMATCH = 5107,
    /// The page number is past the last page of the file.
    PW_ERROR_OUT_OF_RANGE = 5108,
    /// The size of the file exceeds, or would exceed, what the cache can index, or a limit of the
    /// device, the file system or the process (RLIMIT_FSIZE).
    PW_ERROR_FILE_TOO_LARGE = 5109,
    /// The file was truncated outside the cache.
    PW_ERROR_TRUNCATED = 5110,
    /// No frame (4 KiB of the cache's memory) could be freed; ::pw_last_error gives the reasons. Or
    /// an append is longer than the maximum of one call.
    PW_ERROR_OUT_OF_FRAMES = 5111,
    /// The page's contents are inconsistent. (Returned only if the program changed a ::pw_view.)
    PW_ERROR_MALFORMED = 5112,
    /// The page has the maximum number of references, 2^30.
    PW_ERROR_TOO_MANY_PINS = 5113,
    /// The system refused memory.
    PW_ERROR_OUT_OF_MEMORY = 5114,
    /// The file or the handle is open for reading only.
    PW_ERROR_READ_ONLY = 5115,
    /// The file cannot be opened for writing: another process or cache has it open for writing,
    /// this cache has it open for reading only, it is being executed, or it was replaced or locked
    /// during each attempt.
    PW_ERROR_OPEN_ELSEWHERE = 5116,
    /// The file is at its quota of dirty pages, which cannot be written back: see ::pw_last_error.
    PW_ERROR_THROTTLED = 5117,
    // 5118 and 5119 were used by earlier versions and are not assigned again.
    /// A page is being edited.
    PW_ERROR_LOCKED = 5120,
    /// The call would wait for its own thread, which is in a callback of the file, is in a page
    /// codec of any file, or edits the page.
    PW_ERROR_DEADLOCK = 5121,
    /// A callback or page codec of the program refused a page.
    PW_ERROR_REFUSED = 5122,
    /// This process is a fork of the one that created the object.
    PW_ERROR_FORKED = 5123,
    /// The requested facility is unavailable and fallback is disabled: see ::pw_last_error. Or the
    /// system now refuses `membarrier(2)`, which it has granted before: then no handle of a file
    /// can be closed.
    PW_ERROR_UNAVAILABLE = 5124,
    /// The backend failed, for example because the disk is full: see ::pw_last_errno.
    PW_ERROR_IO = 5125,
    /// The program's page codec refused a stored page, or the stored size is not valid for a file
    /// with a page codec: ::pw_open_options_set_page_hooks.
    PW_ERROR_CORRUPT = 5126,
    /// ::PW_OPEN_CREATE_NEW was set, and the file exists.
    PW_ERROR_EXISTS = 5127,
    /// The path is too long, passes through a file, or has more than 40 symbolic links.
    PW_ERROR_PATH = 5128,
    /// A limit of the process or system on open files or threads was reached: see ::pw_last_error.
    PW_ERROR_SYSTEM_LIMIT = 5129,
    /// The identity of the file is ambiguous: its device and inode number are those of another open
    /// file, or change while the file is open.
    PW_ERROR_AMBIGUOUS_FILE = 5130,
    /// An error of a kind that has no number yet; ::pw_last_error returns the message.
    PW_ERROR_OTHER = 5199,
}

use pw_error::*;

errors! {
    PW_OK = 0, c"no error";
    PW_ERROR_HANDLE = 5001, c"not an open handle of this kind";
    PW_ERROR_PANIC = 5002, c"a fault of the library; the handle can only be closed";
    PW_ERROR_ARGUMENT = 5003, c"an argument is invalid";
    PW_ERROR_BUSY = 5004, c"the handle is in use";
    PW_ERROR_THREAD = 5005, c"only the thread that began the edit can do this";
    PW_ERROR_LIMIT = 5006, c"the maximum number of handles of this kind is open";
    PW_ERROR_CANCELED = 5007, c"the request was canceled";
    PW_ERROR_CHANGED = 5008, c"the page has changed since the view began";
    PW_ERROR_CHANGING = 5009, c"another thread is about to change the page";
    PW_ERROR_NOT_FOUND = 5101, c"no such file";
    PW_ERROR_PERMISSION = 5102, c"permission denied";
    PW_ERROR_NOT_A_FILE = 5103, c"not a regular file or block device";
    PW_ERROR_CONFIG = 5104, c"a setting is out of range";
    PW_ERROR_PAGE_SIZE = 5105, c"the page size must be 4, 8, 16, 32 or 64 KiB";
    PW_ERROR_PAGE_SIZE_MISMATCH = 5106, c"the file is already open with another page size";
    PW_ERROR_OPTIONS_MISMATCH = 5107, c"the file is already open with other options";
    PW_ERROR_OUT_OF_RANGE = 5108, c"the page number is past the last page of the file";
    PW_ERROR_FILE_TOO_LARGE = 5109, c"the file is too large";
    PW_ERROR_TRUNCATED = 5110, c"the file was truncated since it was opened";
    PW_ERROR_OUT_OF_FRAMES = 5111, c"no frame of the cache can be freed";
    PW_ERROR_MALFORMED = 5112, c"the page's contents are inconsistent";
    PW_ERROR_TOO_MANY_PINS = 5113, c"the page has the maximum number of references";
    PW_ERROR_OUT_OF_MEMORY = 5114, c"out of memory";
    PW_ERROR_READ_ONLY = 5115, c"the file is open for reading only";
    PW_ERROR_OPEN_ELSEWHERE = 5116, c"the file is open for writing elsewhere";
    PW_ERROR_THROTTLED = 5117, c"the file is at its quota of dirty pages";
    PW_ERROR_LOCKED = 5120, c"a page is being edited";
    PW_ERROR_DEADLOCK = 5121, c"the call would wait for its own thread";
    PW_ERROR_REFUSED = 5122, c"the program's callback refused a page";
    PW_ERROR_FORKED = 5123, c"this process is a fork of the one that created the object";
    PW_ERROR_UNAVAILABLE = 5124, c"the requested facility is unavailable";
    PW_ERROR_IO = 5125, c"the backend failed";
    PW_ERROR_CORRUPT = 5126, c"the stored bytes failed verification";
    PW_ERROR_EXISTS = 5127, c"the file exists";
    PW_ERROR_PATH = 5128, c"invalid path";
    PW_ERROR_SYSTEM_LIMIT = 5129, c"resource limit reached";
    PW_ERROR_AMBIGUOUS_FILE = 5130, c"the file's identity is ambiguous";
    PW_ERROR_OTHER = 5199, c"an error of a kind that has no number yet";
}

const fn code_of(kind: ErrorKind) -> pw_error {
    match kind {
        ErrorKind::NotFound => PW_ERROR_NOT_FOUND,
        ErrorKind::PermissionDenied => PW_ERROR_PERMISSION,
        ErrorKind::NotAFile => PW_ERROR_NOT_A_FILE,
        ErrorKind::InvalidConfig => PW_ERROR_CONFIG,
        ErrorKind::InvalidPageSize => PW_ERROR_PAGE_SIZE,
        ErrorKind::PageSizeMismatch => PW_ERROR_PAGE_SIZE_MISMATCH,
        ErrorKind::OptionsMismatch => PW_ERROR_OPTIONS_MISMATCH,
        ErrorKind::OutOfRange => PW_ERROR_OUT_OF_RANGE,
        ErrorKind::FileTooLarge => PW_ERROR_FILE_TOO_LARGE,
        ErrorKind::Truncated => PW_ERROR_TRUNCATED,
        ErrorKind::OutOfFrames => PW_ERROR_OUT_OF_FRAMES,
        ErrorKind::Malformed => PW_ERROR_MALFORMED,
        ErrorKind::TooManyPins => PW_ERROR_TOO_MANY_PINS,
        ErrorKind::OutOfMemory => PW_ERROR_OUT_OF_MEMORY,
        ErrorKind::ReadOnly => PW_ERROR_READ_ONLY,
        ErrorKind::Busy => PW_ERROR_OPEN_ELSEWHERE,
        ErrorKind::Throttled => PW_ERROR_THROTTLED,
        ErrorKind::Locked => PW_ERROR_LOCKED,
        ErrorKind::Deadlock => PW_ERROR_DEADLOCK,
        ErrorKind::Refused => PW_ERROR_REFUSED,
        ErrorKind::Forked => PW_ERROR_FORKED,
        ErrorKind::Unavailable => PW_ERROR_UNAVAILABLE,
        ErrorKind::Io => PW_ERROR_IO,
        ErrorKind::Corrupt => PW_ERROR_CORRUPT,
        ErrorKind::AlreadyExists => PW_ERROR_EXISTS,
        ErrorKind::InvalidPath => PW_ERROR_PATH,
        ErrorKind::LimitReached => PW_ERROR_SYSTEM_LIMIT,
        ErrorKind::AmbiguousFile => PW_ERROR_AMBIGUOUS_FILE,
        _ => PW_ERROR_OTHER,
    }
}

#[derive(Debug)]
pub(crate) enum Failure {
    Library(Error),
    /// Error of this interface, with a message.
    Ours(pw_error, Cow<'static, str>),
    /// A system call that this interface needs failed.
    System(pw_error, &'static str, io::Error),
    /// Expected result, which is no fault, and has only the general message of its code.
    Outcome(pw_error),
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Self {
        Self::Library(error)
    }
}

impl Failure {
    #[cold]
    pub(crate) fn argument(what: &'static str) -> Self {
        Self::Ours(PW_ERROR_ARGUMENT, Cow::Borrowed(what))
    }

    #[cold]
    pub(crate) fn unknown(what: &str, value: c_int) -> Self {
        Self::Ours(
            PW_ERROR_ARGUMENT,
            format!("{what}: unknown value {value}").into(),
        )
    }

    pub(crate) fn code(&self) -> pw_error {
        match self {
            Self::Library(error) => code_of(error.kind()),
            Self::Ours(code, _) | Self::System(code, ..) | Self::Outcome(code) => *code,
        }
    }

    /// Returns the `errno` of the system call that caused the error, or the closest one.
    pub(crate) fn errno(&self) -> c_int {
        match self {
            Self::Library(error) => {
                let mut source = error.source();
                while let Some(cause) = source {
                    let cause_io = cause.downcast_ref::<io::Error>();
                    if let Some(number) = cause_io.and_then(io::Error::raw_os_error) {
                        return number;
                    }
                    source = cause.source();
                }
                error.kind().errno()
            }
            Self::System(_, _, error) => error.raw_os_error().unwrap_or(libc::EIO),
            Self::Ours(code, _) | Self::Outcome(code) => match code {
                PW_ERROR_HANDLE | PW_ERROR_FORKED => libc::EBADF,
                PW_ERROR_BUSY | PW_ERROR_CHANGING => libc::EBUSY,
                PW_ERROR_THREAD => libc::EPERM,
                PW_ERROR_LIMIT => libc::EMFILE,
                PW_ERROR_OUT_OF_MEMORY => libc::ENOMEM,
                PW_ERROR_UNAVAILABLE => libc::EOPNOTSUPP,
                PW_ERROR_CANCELED => libc::ECANCELED,
                PW_ERROR_CHANGED => libc::EAGAIN,
                PW_ERROR_PANIC => libc::ENOTRECOVERABLE,
                _ => libc::EINVAL,
            },
        }
    }

    /// Returns the message in one line. For an error of the library, it has the operation, the
    /// file, the reason and the causes; otherwise the message of the code, and usually a detail.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Library(error) => {
                let mut text = error.to_string();
                let mut source = error.source();
                while let Some(cause) = source {
                    // Writing to a `String` does not fail.
                    let _ = write!(text, ": {cause}");
                    source = cause.source();
                }
                text
            }
            Self::Ours(code, detail) => format!("{}: {detail}", in_words(*code)),
            Self::System(code, what, error) => format!("{}: {what}: {error}", in_words(*code)),
            Self::Outcome(code) => in_words(*code).into(),
        }
    }

    /// Stores the failure as this thread's last error, and returns its code.
    #[cold]
    pub(crate) fn tell(self) -> c_int {
        let code = self.code();
        match self {
            // Frequent, so no message is stored.
            Self::Outcome(_) => told(code, self.errno(), None),
            _ => {
                // The message of a cause or of a panic may contain a zero.
                let text = self.text().replace('\0', "\u{fffd}");
                told(code, self.errno(), CString::new(text).ok());
            }
        }
        code as c_int
    }
}

fn in_words(code: pw_error) -> &'static str {
    text_of(code as c_int)
        .and_then(|text| text.to_str().ok())
        .unwrap_or_default()
}

struct Last {
    code: c_int,
    errno: c_int,
    /// `None` if the message is the general one of the code.
    text: Option<CString>,
}

thread_local! {
    static LAST: RefCell<Last> = const { RefCell::new(Last { code: 0, errno: 0, text: None }) };
}

fn told(code: pw_error, errno: c_int, text: Option<CString>) {
    // If the thread is ending, its variable may already be destroyed. The program then gets only
    // the code.
    let _ = LAST.try_with(|last| {
        if let Ok(mut last) = last.try_borrow_mut() {
            *last = Last {
                code: code as c_int,
                errno,
                text,
            };
        }
    });
}

/// Returns the message of an error code, or "not an error code". The string is never null, and
/// stays valid until the process ends.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn pw_strerror(code: c_int) -> *const c_char {
    text_of(code).unwrap_or(c"not an error code").as_ptr()
}

/// Returns the message of this thread's last error in one line, or "no error". The message has the
/// operation, the path, the reason and the causes. If the interface itself refused the call, for
/// example an argument, the message has only the reason. Successful calls do not change it.
///
/// Returns: a string that is never null, and stays valid until the next error of this thread, or
/// until the thread ends.
///
/// Threads: any; each has its own last error.
#[unsafe(no_mangle)]
pub extern "C" fn pw_last_error() -> *const c_char {
    let text = LAST.try_with(|last| {
        let last = last.try_borrow().ok()?;
        let text = last.text.as_ref().map(|text| text.as_ptr());
        text.or_else(|| text_of(last.code).map(CStr::as_ptr))
    });
    text.ok().flatten().unwrap_or(c"no error".as_ptr())
}

/// Returns the code of this thread's last error, or ::PW_OK. Successful calls do not change it.
///
/// Threads: any; each has its own last error.
#[unsafe(no_mangle)]
pub extern "C" fn pw_last_code() -> c_int {
    LAST.try_with(|last| last.try_borrow().map_or(0, |last| last.code))
        .unwrap_or(0)
}

/// Returns the `errno` of this thread's last error: that of the failed system call, for example
/// `ENOSPC` for a full disk, or the closest one if no system call failed. Returns 0 if there was no
/// error. Successful calls do not change it.
///
/// Threads: any; each has its own last error.
#[unsafe(no_mangle)]
pub extern "C" fn pw_last_errno() -> c_int {
    LAST.try_with(|last| last.try_borrow().map_or(0, |last| last.errno))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_its_number_and_a_text_of_its_own() {
        let mut texts = std::collections::HashSet::new();
        for (name, code, number, text) in ALL {
            assert_eq!(*code as c_int, *number, "{name}");
            assert!(texts.insert(text), "{name}: {text:?} twice");
            // SAFETY: the text is static.
            let told = unsafe { CStr::from_ptr(pw_strerror(*number)) };
            assert_eq!(told, *text);
            assert!(*number == 0 || *number > 4095, "{name} is in errno's range");
        }
    }

    #[test]
    fn each_kind_of_the_library_has_a_code_of_its_own() {
        let mut codes = std::collections::HashSet::new();
        for kind in ErrorKind::ALL {
            let code = code_of(*kind);
            assert_ne!(code, PW_ERROR_OTHER, "{kind:?}");
            assert!(
                codes.insert(code as c_int),
                "{kind:?} has {code:?} of another"
            );
            assert!(kind.errno() > 0);
        }
    }

    #[test]
    fn each_code_is_in_the_header() {
        let header = include_str!("../include/pagewell.h");
        let declared: Vec<(&str, c_int)> = header
            .lines()
            .filter_map(|line| line.trim().strip_suffix(',')?.split_once(" = "))
            .filter(|(name, _)| *name == "PW_OK" || name.starts_with("PW_ERROR_"))
            .filter_map(|(name, number)| Some((name, number.parse().ok()?)))
            .collect();
        let ours: Vec<_> = ALL
            .iter()
            .map(|(name, _, number, _)| (*name, *number))
            .collect();
        assert_eq!(declared, ours);
    }
}
