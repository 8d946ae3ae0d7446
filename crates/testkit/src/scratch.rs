//! Folders and files of a test, in the system's folder for temporary files (`TMPDIR`).
//!
//! A full disk is no fault of the tested code. Without a check first, some tests would fail far from the cause, by a
//! wrong byte, a signal or a limit of time.

use std::sync::OnceLock;

use tempfile::{NamedTempFile, TempDir};

/// More than all tests that run at a time need.
pub const ROOM_BYTES: u64 = 256 << 20;

/// A folder that is removed with its content when it is dropped.
///
/// # Panics
///
/// When there is [no room](require_room), or no folder can be made; either says where.
#[track_caller]
pub fn dir() -> TempDir {
    require_room();
    tempfile::tempdir().unwrap_or_else(|error| panic!("no folder for a test: {error}"))
}

/// An empty file that is removed when it is dropped.
///
/// # Panics
///
/// As [`dir`] does.
#[track_caller]
pub fn file() -> NamedTempFile {
    require_room();
    NamedTempFile::new().unwrap_or_else(|error| panic!("no file for a test: {error}"))
}

/// Checks, once a process, that the folder for temporary files has [`ROOM_BYTES`] left.
///
/// # Panics
///
/// When it has less, with its name, and a remedy.
#[track_caller]
pub fn require_room() {
    static LACK: OnceLock<Option<String>> = OnceLock::new();
    if let Some(lack) = LACK.get_or_init(|| lack_of(ROOM_BYTES)) {
        panic!("{lack}");
    }
}

/// A message if the folder has less than `bytes` left.
fn lack_of(bytes: u64) -> Option<String> {
    let folder = std::env::temp_dir();
    let folder_is = folder.display();
    // The space for an ordinary user: a file system may keep some for the superuser.
    let room = match rustix::fs::statvfs(&folder) {
        Ok(system) => system.f_bavail.saturating_mul(system.f_frsize),
        Err(error) => {
            return Some(format!(
                "no folder for temporary files: {folder_is}: {error}"
            ));
        }
    };
    (room < bytes).then(|| {
        format!(
            "no room for temporary files in {folder_is}: {} of {} MiB are free; name another \
             folder in TMPDIR",
            room >> 20,
            bytes >> 20
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_any_disk_has_is_told_with_the_folder() {
        assert_eq!(lack_of(0), None);
        let lack = lack_of(u64::MAX).expect("no disk is that large");
        let folder = std::env::temp_dir().display().to_string();
        assert!(lack.contains("no room") && lack.contains(&folder), "{lack}");
        assert!(lack.contains("TMPDIR"), "{lack}");
    }
}
