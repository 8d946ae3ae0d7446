//! A file: the user's, which is only read, or a temporary one.
//!
//! A temporary file that is only read has no name: it is gone when the command ends, in whatever
//! way. It is opened again through `/proc/self/fd`. A file that the cache writes to needs a name, which must lead to
//! it until it is closed; it is removed when the run ends, also after a first SIGINT, SIGTERM or SIGHUP.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use tempfile::TempPath;

use crate::failure::Failure;

/// A file to read, or to write to if it is a temporary one.
#[derive(Debug)]
pub(in crate::bench) struct DataFile {
    /// Keeps a temporary file in being; what `pread` is asked for the truth.
    pub(in crate::bench) file: File,
    /// How to open it once more.
    pub(in crate::bench) path: PathBuf,
    /// Removes the name of a temporary file that has one.
    _name: Option<TempPath>,
    /// What to call it when talking to people.
    pub(in crate::bench) label: String,
    pub(in crate::bench) bytes: u64,
}

impl DataFile {
    /// Opens the user's file, read-only.
    pub(in crate::bench) fn users(path: &Path) -> Result<DataFile, Failure> {
        let cannot = |cause: &dyn std::fmt::Display| {
            Failure::because(format_args!("cannot read {}", path.display()), cause)
        };
        // Before it is opened: opening a pipe would wait for its writer.
        let metadata = fs::metadata(path).map_err(|error| cannot(&error))?;
        if !metadata.is_file() {
            return Err(cannot(&"not a regular file"));
        }
        let file = File::open(path).map_err(|error| cannot(&error))?;
        let bytes = file.metadata().map_err(|error| cannot(&error))?.len();
        if bytes == 0 {
            return Err(cannot(&"the file is empty, there is nothing to read"));
        }
        Ok(DataFile {
            file,
            path: path.to_owned(),
            _name: None,
            label: path.display().to_string(),
            bytes,
        })
    }

    pub(super) fn temporary(
        file: File,
        name: Option<TempPath>,
        bytes: u64,
        label: String,
    ) -> DataFile {
        let path = match &name {
            Some(name) => name.to_path_buf(),
            None => PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())),
        };
        DataFile {
            path,
            _name: name,
            file,
            label,
            bytes,
        }
    }
}

/// The name of the file system that `file` is on, if it is a common one.
pub(super) fn file_system(file: &File) -> Option<&'static str> {
    const NAMES: [(u64, &str); 10] = [
        (0x0102_1994, "tmpfs"),
        (0xef53, "ext4"),
        (0x5846_5342, "xfs"),
        (0x9123_683e, "btrfs"),
        (0x794c_7630, "overlayfs"),
        (0x2fc1_2fc1, "zfs"),
        (0xf2f5_2010, "f2fs"),
        (0x6969, "nfs"),
        (0x6573_5546, "fuse"),
        (0x0102_1997, "9p"),
    ];
    let magic = rustix::fs::fstatfs(file).ok()?.f_type as u64;
    NAMES
        .iter()
        .find(|(known, _)| *known == magic)
        .map(|(_, name)| *name)
}
