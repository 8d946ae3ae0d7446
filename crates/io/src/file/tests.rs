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
