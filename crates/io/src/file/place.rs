//! The directory and the name by which a file is found, and their durability.

#![allow(unsafe_code)] // Calls relative to a directory, which the standard library does not have.

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::options::FileOptions;
use super::sync;
use crate::backend::FileId;

/// How many symbolic links are followed from one to the next, as the system does.
const MOST_LINKS: usize = 40;

/// A directory and a name in it, and what of that is not known to be durable.
#[derive(Debug)]
pub(super) struct Place {
    directory: Arc<File>,
    name: CString,
    /// The directories to be synced before a sync of the file may succeed.
    pub(super) unsynced: Vec<Arc<File>>,
}

impl Place {
    /// Opens the file at `path` for reading and writing, or creates it, by `options`; and says where it was
    /// found: in the very directory that a symbolic link at the end of the path leads to.
    pub(super) fn open(path: &Path, options: &FileOptions) -> io::Result<(Self, File)> {
        let mut path = path.to_path_buf();
        for _ in 0..MOST_LINKS {
            let (directory, name) = split(&path)?;
            match open_in(&directory, &name, options) {
                Ok(file) => {
                    let place = Self {
                        unsynced: vec![Arc::clone(&directory)],
                        directory,
                        name,
                    };
                    return Ok((place, file));
                }
                // The name is a link, or was: it may have changed, and then is tried again.
                Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
                    match fs::read_link(&path) {
                        Ok(target) => path = parent(&path).join(target),
                        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
                        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                        Err(error) => return Err(error),
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::from_raw_os_error(libc::ELOOP))
    }

    /// Whether the file `id` is found here.
    pub(super) fn leads_to(&self, id: FileId) -> io::Result<bool> {
        match id_in(&self.directory, &self.name) {
            Ok(found) => Ok(found == id),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes durable what of this place is not.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        while let Some(directory) = self.unsynced.first() {
            match sync::all(directory) {
                Ok(()) => {}
                // The file system has no sync of directories, and none is needed or possible.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
                Err(error) => return Err(error),
            }
            self.unsynced.remove(0);
        }
        Ok(())
    }
}

/// The directory of `path`, open, and the name in it.
fn split(path: &Path) -> io::Result<(Arc<File>, CString)> {
    let bytes = path.as_os_str().as_bytes();
    let is_directory = bytes.ends_with(b"/") || bytes.ends_with(b"/.");
    let Some(name) = path.file_name().filter(|_| !is_directory) else {
        let kind = match path.as_os_str().is_empty() {
            true => io::ErrorKind::NotFound,
            false => io::ErrorKind::IsADirectory,
        };
        return Err(kind.into());
    };
    let directory = File::open(parent(path))?;
    Ok((Arc::new(directory), CString::new(name.as_bytes())?))
}

/// The directory that has the last name of `path`.
fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// Opens the file `name` in `directory`; fails with `ELOOP` if it is a symbolic link.
fn open_in(directory: &File, name: &CStr, options: &FileOptions) -> io::Result<File> {
    // Without O_NONBLOCK, opening a pipe could wait; it means nothing for files.
    let always = libc::O_RDWR | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOFOLLOW;
    let (flags, mode) = (always | options.flags(), options.permissions());
    let descriptor = again(|| {
        // SAFETY: the directory is open, and the name ends with a zero.
        unsafe { libc::openat(directory.as_raw_fd(), name.as_ptr(), flags, mode) }
    })?;
    // SAFETY: the descriptor was just opened, and belongs to nobody else.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// What the `name` in `directory` leads to, which may be a symbolic link.
fn id_in(directory: &File, name: &CStr) -> io::Result<FileId> {
    let mut answer = MaybeUninit::<libc::stat>::uninit();
    again(|| {
        // SAFETY: the directory is open, the name ends with a zero, and the answer has room.
        unsafe {
            libc::fstatat(
                directory.as_raw_fd(),
                name.as_ptr(),
                answer.as_mut_ptr(),
                libc::AT_SYMLINK_NOFOLLOW,
            )
        }
    })?;
    // SAFETY: the call has succeeded, so the answer is there.
    let answer = unsafe { answer.assume_init() };
    Ok(FileId {
        device: answer.st_dev,
        inode: answer.st_ino,
    })
}

/// The answer of a system call, which is made again for as long as it is interrupted.
fn again(mut call: impl FnMut() -> libc::c_int) -> io::Result<libc::c_int> {
    loop {
        let answer = call();
        if answer != -1 {
            return Ok(answer);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
