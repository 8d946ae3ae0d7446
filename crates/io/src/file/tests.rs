//! Tests of the directories that a file has yet to sync, which are otherwise visible only after a
//! loss of power, and of alignments that the system reports wrongly.

#![allow(unsafe_code)] // Memory of a test.

use std::os::unix::fs::MetadataExt;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use pagewell_sync::bytes::RacyBytes;

use super::{Direct, FileBackend, FileOptions};
use crate::backend::Backend;
use crate::backend::Transfers;

fn unsynced(file: &FileBackend) -> Vec<u64> {
    let place = file.place().unwrap();
    let inode = |directory: &std::sync::Arc<std::fs::File>| directory.metadata().unwrap().ino();
    place.unsynced.iter().map(inode).collect()
}

#[test]
fn the_first_sync_of_either_kind_is_one_of_the_directory_too() {
    let dir = pagewell_testkit::scratch::dir();
    let inode = dir.path().metadata().unwrap().ino();
    let options = FileOptions::new().create();
    // From the second round on, the file exists, but its name may still not be durable.
    for sync in [
        FileBackend::sync_data,
        FileBackend::sync_all,
        FileBackend::sync_data,
    ] {
        let file = FileBackend::open_writable(&dir.path().join("file"), &options).unwrap();
        assert_eq!(unsynced(&file), [inode]);
        sync(&file).unwrap();
        assert!(unsynced(&file).is_empty());
    }
}

#[test]
fn a_file_that_is_created_has_the_permissions_that_were_asked_for() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let permissions = || path.metadata().unwrap().mode() & 0o777;
    // Other tests run, so the umask is not changed. These modes do not depend on it.
    for (new, mode) in [(true, 0o600), (false, 0o400)] {
        let options = FileOptions::new().create().mode(mode);
        FileBackend::open_writable(&path, &options).unwrap();
        assert_eq!(permissions(), 0o600, "new: {new}");
    }
}

/// If the reported alignment is too small, such as 512 for a device with blocks of 4096 bytes, the
/// transfers succeed with the true one.
#[test]
fn a_system_that_tells_too_small_an_alignment_is_not_believed_for_long() {
    let dir = pagewell_testkit::scratch::dir();
    for asked in [Direct::Auto, Direct::Always] {
        let path = dir.path().join(format!("{asked:?}"));
        let options = FileOptions::new().create().direct(Direct::Auto);
        let mut file = FileBackend::open_writable(&path, &options).unwrap();
        if !matches!(file.transfers(), Transfers::Direct { alignment: 2.. }) {
            pagewell_testkit::skip::skipped(&file.transfers().to_string());
            return;
        }
        file.tell_alignment(asked, 1);
        let bytes: Vec<u8> = (0..10_000_u32).map(|nr| nr as u8).collect();
        let words: Vec<_> = (0..1250).map(|_| AtomicU64::new(0)).collect();
        // SAFETY: (a) atomics that live as long as the test. (b) No other code accesses them.
        let memory = unsafe { RacyBytes::new(NonNull::from(&*words).cast(), 10_000) };
        memory.copy_from(0, &bytes);
        file.write_at(&[memory.slice(0, 9_999).source()], 1)
            .unwrap();
        assert_eq!(file.transfers(), Transfers::Direct { alignment: 4096 });
        assert_eq!(file.size().unwrap(), 10_000);
        memory.zero(0, 10_000);
        assert_eq!(file.read_at(&[memory], 1).unwrap(), 9_999);
        let mut read = vec![0; 9_999];
        memory.copy_to(0, &mut read);
        assert!(read == bytes[..9_999]);
    }
}

/// Closing any descriptor of a file releases the `F_SETLK` locks of this process.
#[test]
fn a_file_that_could_not_be_locked_can_be_kept_and_locked_later() {
    use std::os::fd::AsRawFd;

    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let other = std::fs::File::create(&path).unwrap();
    let lock = |kind: libc::c_int| {
        let lock = libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: 1 << 30,
            l_len: 1,
            l_pid: 0,
        };
        // SAFETY: the descriptor is open, and the command reads a lock.
        assert!(unsafe { libc::fcntl(other.as_raw_fd(), libc::F_SETLK, &raw const lock) } != -1);
    };
    lock(libc::F_WRLCK);
    let options = FileOptions::new();
    let file = FileBackend::open_unlocked(&path, &options).unwrap();
    let (file, error) = file.lock_or_keep().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ResourceBusy);
    // The other lock is still held.
    let (file, _) = file.lock_or_keep().unwrap_err();
    lock(libc::F_UNLCK);
    let locked = file.lock_or_keep().unwrap().expect("it is in its place");
    assert!(locked.is_writable());

    // The drop releases the other lock, which `lock_or_keep` avoids.
    drop(locked);
    lock(libc::F_WRLCK);
    let failed = FileBackend::open_unlocked(&path, &options).unwrap().lock();
    assert_eq!(failed.unwrap_err().kind(), std::io::ErrorKind::ResourceBusy);
    FileBackend::open_writable(&path, &options).unwrap();
}

#[test]
fn value_is_dropped_after_the_unlock_and_before_the_close() {
    use std::os::fd::{AsFd, AsRawFd};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::identity;

    static NR_DROPPED: AtomicUsize = AtomicUsize::new(0);

    #[derive(Debug)]
    struct Value {
        fd: i32,
        other: std::fs::File,
    }

    impl Drop for Value {
        fn drop(&mut self) {
            // SAFETY: the command accesses no memory.
            let is_open = unsafe { libc::fcntl(self.fd, libc::F_GETFD) } != -1;
            assert!(is_open, "the descriptor was closed before");
            let is_locked = identity::is_locked_elsewhere(self.other.as_fd());
            assert_eq!(is_locked, Some(false));
            NR_DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }

    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let open = || {
        let mut file = FileBackend::open_unlocked(&path, &FileOptions::new().create()).unwrap();
        let fd = file.as_fd().as_raw_fd();
        let other = std::fs::File::open(&path).unwrap();
        file.drop_before_close(Value { fd, other });
        file
    };
    drop(open());
    assert_eq!(NR_DROPPED.load(Ordering::Relaxed), 1);
    drop(open().lock().unwrap().expect("it is in its place"));
    assert_eq!(NR_DROPPED.load(Ordering::Relaxed), 2);
    // The path leads to another file at the lock.
    let file = open();
    std::fs::rename(&path, dir.path().join("renamed")).unwrap();
    assert!(file.lock().unwrap().is_none());
    assert_eq!(NR_DROPPED.load(Ordering::Relaxed), 3);
}
