//! The directories that are left to be synced. From outside their syncs cannot be seen, unless the power
//! is lost at the right moment.

use std::os::unix::fs::MetadataExt;

use super::{FileBackend, FileOptions};
use crate::backend::Backend;

/// The inodes of the directories that `file` has still to sync.
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
    // The second and the third time the file is there, and its name may still not be durable.
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
fn a_rename_leaves_both_directories_to_be_synced_the_new_one_first() {
    let dirs = [
        pagewell_testkit::scratch::dir(),
        pagewell_testkit::scratch::dir(),
    ];
    let [from, to] = dirs
        .each_ref()
        .map(|dir| dir.path().metadata().unwrap().ino());
    let options = FileOptions::new().create();
    let file = FileBackend::open_writable(&dirs[0].path().join("file"), &options).unwrap();
    file.sync_data().unwrap();
    let new = dirs[1].path().join("new");
    file.place().unwrap().rename(file.id(), &new).unwrap();
    assert_eq!(unsynced(&file), [to, from]);
    file.sync_data().unwrap();
    assert!(unsynced(&file).is_empty());

    file.rename(&dirs[0].path().join("file")).unwrap();
    assert!(unsynced(&file).is_empty());
}
