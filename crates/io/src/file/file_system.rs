//! File systems that generate the contents of files at a read, and limits on sizes.

#![allow(unsafe_code)] // A system call.
#![allow(clippy::unnecessary_cast)] // The types of the constants differ between C libraries.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use pagewell_sync::system::{self, Resource};

use super::open::again;

/// Returns `true` if the length of the contents may differ from `size` (`st_size`), since reads
/// generate them (procfs, sysfs, some files of FUSE).
pub(super) fn has_no_size(file: &File, size: u64) -> io::Result<bool> {
    // Most files of sysfs have the size of a page, whatever their contents.
    let is_page = system::page_bytes().is_some_and(|bytes| bytes as u64 == size);
    if size != 0 && !is_page {
        return Ok(false);
    }
    if is_synthetic(file)? {
        let mut bytes = vec![0; size as usize];
        return Ok(size == 0 || file.read_exact_at(&mut bytes, 0).is_err());
    }
    if size != 0 {
        return Ok(false);
    }
    // On other file systems (FUSE with `direct_io`), only a read shows that the file has bytes. An
    // error is ignored here: if it persists, the user's first read returns it.
    let nr = file.read_at(&mut [0], 0).unwrap_or(0);
    Ok(nr != 0 && file.metadata()?.len() == 0)
}

pub(super) fn is_procfs(file: &File) -> io::Result<bool> {
    is_on(file, &[libc::PROC_SUPER_MAGIC as i64])
}

fn is_synthetic(file: &File) -> io::Result<bool> {
    /// `CONFIGFS_MAGIC` of the kernel.
    const CONFIGFS: i64 = 0x6265_6570;
    is_on(
        file,
        &[
            libc::PROC_SUPER_MAGIC as i64,
            libc::SYSFS_MAGIC as i64,
            libc::DEBUGFS_MAGIC as i64,
            libc::TRACEFS_MAGIC as i64,
            libc::SECURITYFS_MAGIC as i64,
            libc::CGROUP_SUPER_MAGIC as i64,
            libc::CGROUP2_SUPER_MAGIC as i64,
            CONFIGFS,
        ],
    )
}

/// Compares the type in `statfs`.
fn is_on(file: &File, types: &[i64]) -> io::Result<bool> {
    let mut answer = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the file is open, and `answer` has the size of the result.
    again(|| unsafe { libc::fstatfs(file.as_raw_fd(), answer.as_mut_ptr()) })?;
    // SAFETY: the call has succeeded, so the answer is initialized.
    let answer = unsafe { answer.assume_init() };
    Ok(types.contains(&(answer.f_type as i64)))
}

/// Checks a new size against the limits of the process and the file system.
pub(super) fn check_size(mut file: &File, size: u64) -> io::Result<()> {
    // The kernel sends SIGXFSZ at a write past this limit.
    if let Some(limit) = Resource::FileSize.limit()
        && size > limit
    {
        return Err(too_large(format!(
            "the process may write the first {limit} bytes of a file: raise RLIMIT_FSIZE"
        )));
    }
    // The kernel rejects a seek past the file system's limit. Transfers do not use this position.
    match file.seek(SeekFrom::Start(size)) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            Err(too_large("the file system limits its files to less".into()))
        }
        // Other errors say nothing about the size.
        _ => Ok(()),
    }
}

pub(super) fn check_device(end: u64, size: u64) -> io::Result<()> {
    match size <= end {
        true => Ok(()),
        false => Err(too_large(format!("the device has {end} bytes"))),
    }
}

fn too_large(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, text)
}
