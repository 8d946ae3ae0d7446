//! Directory entry of an open file, and its durability.
//!
//! The kernel resolves the path itself, by its rules for links (such as `protected_symlinks`). A
//! separate walk ([`find`]) finds the entry, whose directory a sync must include.

#![allow(unsafe_code)] // Calls relative to a directory, which the standard library does not have.

use std::ffi::{CStr, CString, OsString};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::file_system;
use super::identity;
use super::open::FailedStep;
use super::open::{self, again, c_string};
use super::options::FileOptions;
use super::sync;
use crate::backend::FileId;

const MAX_LINKS: usize = 40;

#[derive(Debug)]
pub(super) struct Place {
    /// `None` once the file is locked, or if it was opened by its descriptor or by a link of procfs
    /// whose text is not its path (`/proc/self/fd/3`).
    entry: Option<Entry>,
    /// Directories that must be synced before a sync of the file may succeed.
    pub(super) unsynced: Vec<Arc<File>>,
}

#[derive(Debug)]
pub(super) struct Entry {
    directory: Arc<File>,
    name: CString,
}

#[derive(Debug)]
enum NoEntry {
    /// The directory is searchable but not readable, so it cannot be synced, only checked.
    Unreadable(Entry, io::Error),
    /// The path ends with `/`, `.` or `..`.
    Directory,
    Other(io::Error),
}

impl From<io::Error> for NoEntry {
    fn from(error: io::Error) -> Self {
        Self::Other(error)
    }
}

impl Place {
    /// Opens or creates the file at `path` for reading and writing.
    pub(super) fn open(path: &Path, options: &FileOptions) -> io::Result<(Self, File)> {
        let (flags, mode) = (libc::O_RDWR | options.flags(), options.permissions());
        if let Ok((parent, name)) = split(path)
            && let Ok((directory, None)) = open_directory(None, parent)
        {
            // With `O_EXCL` the kernel does not follow links either.
            let no_link = flags | libc::O_NOFOLLOW;
            match open::in_directory(Some(directory.as_fd()), &name, path, no_link, mode) {
                // A symbolic link. (`O_CREAT` in the directory of another user gives EACCES.)
                Err(error) if matches!(error.raw_os_error(), Some(libc::ELOOP | libc::EACCES)) => {}
                result => {
                    let directory = Arc::new(directory);
                    return Ok((Self::of(Some(Entry { directory, name })), result?));
                }
            }
        }
        Self::open_by_links(path, flags, mode)
    }

    /// Like [`open`](Self::open), if the path may end in a link, or its directory is not readable.
    fn open_by_links(
        path: &Path,
        flags: libc::c_int,
        mode: libc::c_uint,
    ) -> io::Result<(Self, File)> {
        let (found, by_procfs) = find(path);
        let is_creating = flags & libc::O_CREAT != 0;
        let found = match found {
            // Create no file whose name could not be made durable. An existing name is not synced.
            Err(NoEntry::Unreadable(entry, failed)) if !by_procfs => {
                if flags & libc::O_EXCL != 0 {
                    return Err(failed);
                }
                let file =
                    open::at_path(path, flags & !libc::O_CREAT, mode).map_err(
                        |error| match error.kind() {
                            io::ErrorKind::NotFound if is_creating => failed,
                            _ => error,
                        },
                    )?;
                let (entry, unsynced) = (Some(entry), Vec::new());
                return Ok((Self { entry, unsynced }, file));
            }
            Err(NoEntry::Other(failed)) if !by_procfs => {
                return Err(match identity::named(path) {
                    Err(error) if !is_creating || error.kind() != io::ErrorKind::NotFound => error,
                    _ => failed,
                });
            }
            found => found,
        };
        let file = open::at_path(path, flags, mode)?;
        let entry = match found {
            Ok(entry) if !by_procfs => Some(entry),
            Ok(entry) => entry
                .leads_to(identity::id_of(file.as_fd())?)?
                .then_some(entry),
            Err(_) if by_procfs => None,
            Err(_) => return Err(io::ErrorKind::IsADirectory.into()),
        };
        Ok((Self::of(entry), file))
    }

    /// Returns the place of a file with this entry, or of one that is given by its descriptor.
    pub(super) fn of(entry: Option<Entry>) -> Self {
        let directories = entry.iter().map(|entry| Arc::clone(&entry.directory));
        let unsynced = directories.collect();
        Self { entry, unsynced }
    }

    /// Returns `true` if the entry leads to the file `id`, or if the file has no name.
    pub(super) fn leads_to(&self, id: FileId) -> io::Result<bool> {
        match &self.entry {
            Some(entry) => entry.leads_to(id),
            None => Ok(true),
        }
    }

    /// Forgets the entry. Its directory stays open until it is synced.
    pub(super) fn forget_entry(&mut self) {
        self.entry = None;
    }

    /// Syncs the directories. After an error the next call syncs the rest.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        while let Some(directory) = self.unsynced.first() {
            match sync::all(directory) {
                Ok(()) => {}
                Err(error) if is_unsupported(&error) => {}
                Err(error) => return Err(error),
            }
            self.unsynced.remove(0);
        }
        Ok(())
    }
}

/// Returns `true` if the file system has no syncs of directories, not if the sync has failed.
fn is_unsupported(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS)
    )
}

impl Entry {
    fn leads_to(&self, id: FileId) -> io::Result<bool> {
        match id_in(&self.directory, &self.name) {
            Ok(found) => Ok(found == id),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Finds the directory entry of the file at `path`, or the one that `O_CREAT` would create. The
/// second value is `true` if the walk followed a link of procfs. The entry may then be wrong, since
/// the kernel may ignore the text of such links.
fn find(path: &Path) -> (Result<Entry, NoEntry>, bool) {
    let mut by_procfs = false;
    let mut path = path.to_path_buf();
    // `None` is the current directory.
    let mut start: Option<File> = None;
    let mut walk = || {
        for _ in 0..=MAX_LINKS {
            let (parent, name) = split(&path)?;
            let (directory, unreadable) = open_directory(start.as_ref(), parent)?;
            match read_link(&directory, &name) {
                Ok(target) => {
                    by_procfs |= file_system::is_procfs(&directory)?;
                    path = target;
                    start = Some(directory);
                }
                // Not a link, or missing.
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound
                        || error.raw_os_error() == Some(libc::EINVAL) =>
                {
                    let directory = Arc::new(directory);
                    return match unreadable {
                        None => Ok(Entry { directory, name }),
                        Some(error) => Err(NoEntry::Unreadable(Entry { directory, name }, error)),
                    };
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::Error::from_raw_os_error(libc::ELOOP).into())
    };
    (walk(), by_procfs)
}

fn split(path: &Path) -> Result<(&Path, CString), NoEntry> {
    let bytes = path.as_os_str().as_bytes();
    let is_directory = bytes.ends_with(b"/") || bytes.ends_with(b"/.");
    let name = match path.file_name() {
        Some(name) if !is_directory => c_string(name.as_bytes())?,
        _ if bytes.is_empty() => return Err(io::Error::from_raw_os_error(libc::ENOENT).into()),
        _ => return Err(NoEntry::Directory),
    };
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => Ok((parent, name)),
        _ => Ok((Path::new("."), name)),
    }
}

/// Opens the directory at `path` relative to `start`. If it is searchable but not readable, the
/// second value is the error of opening it for reading.
fn open_directory(start: Option<&File>, path: &Path) -> io::Result<(File, Option<io::Error>)> {
    // With `.` appended, the kernel applies its rules for links in inner components to `path`.
    let path = c_string(path.join(".").as_os_str().as_bytes())?;
    let start = start.map(AsFd::as_fd);
    match open::open(start, &path, libc::O_RDONLY | libc::O_DIRECTORY, 0) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let directory = open::open(start, &path, libc::O_PATH | libc::O_DIRECTORY, 0)?;
            let unreadable = FailedStep::error(
                error.kind(),
                "cannot open the directory of the file for reading, which a sync of the file needs",
                error,
            );
            Ok((directory, Some(unreadable)))
        }
        result => Ok((result?, None)),
    }
}

fn read_link(directory: &File, name: &CStr) -> io::Result<PathBuf> {
    let mut text = vec![0_u8; libc::PATH_MAX as usize];
    // SAFETY: the directory is open, the name ends with NUL, and `text` has the stated length.
    let len = again(|| unsafe {
        let to = text.as_mut_ptr().cast();
        libc::readlinkat(directory.as_raw_fd(), name.as_ptr(), to, text.len()) as libc::c_int
    })?;
    text.truncate(len as usize);
    Ok(OsString::from_vec(text).into())
}

fn id_in(directory: &File, name: &CStr) -> io::Result<FileId> {
    let mut answer = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the directory is open, the name ends with NUL, and `answer` has the right size.
    again(|| unsafe {
        let flags = libc::AT_SYMLINK_NOFOLLOW;
        libc::fstatat(
            directory.as_raw_fd(),
            name.as_ptr(),
            answer.as_mut_ptr(),
            flags,
        )
    })?;
    // SAFETY: the call has succeeded, so the answer is initialized.
    Ok(identity::id_from(&unsafe { answer.assume_init() }))
}
