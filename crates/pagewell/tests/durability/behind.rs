//! The file is truncated, replaced or removed behind the cache's back, while pages of it are dirty.
//!
//! A file that is open for writing is the cache's alone: its lock keeps other writers away that ask for it, and others
//! must not change it. If one does, what is lost is what that one took away: no page that is dirty, none of another file,
//! and what is not there any more is an error and not made up.

use std::fs;
use std::path::PathBuf;

use pagewell::{Cache, ErrorKind, File, OpenOptions};
use pagewell_testkit::content;
use tempfile::TempDir;

use crate::storage::{contents, manual};
use crate::support::{PAGE, assert_all_free, cache};

/// A file of eight pages, open for writing; pages 2 and 5 are dirty, and 2 to 5 are cached.
struct Dirty {
    dir: TempDir,
    cache: Cache,
    file: File,
    /// What the file had, and what it has with what is dirty.
    old: Vec<u8>,
    new: Vec<u8>,
}

fn dirty() -> Dirty {
    let dir = pagewell_testkit::scratch::dir();
    let cache = cache(64);
    let old = content(1, 8 * PAGE);
    fs::write(dir.path().join("file"), &old).unwrap();
    let file = cache.open_with(dir.path().join("file"), &manual()).unwrap();
    let mut new = old.clone();
    for page in [2, 5] {
        let bytes = content(page, PAGE - 10);
        let pos = page as usize * PAGE + 10;
        file.write_at(&bytes, pos as u64).unwrap();
        new[pos..pos + bytes.len()].copy_from_slice(&bytes);
    }
    for page in [3, 4] {
        assert_eq!(*file.pin(page).unwrap(), new[page_range(page)]);
    }
    Dirty {
        dir,
        cache,
        file,
        old,
        new,
    }
}

fn page_range(page: u64) -> std::ops::Range<usize> {
    page as usize * PAGE..(page as usize + 1) * PAGE
}

impl Dirty {
    fn path(&self) -> PathBuf {
        self.dir.path().join("file")
    }

    fn read(&self, page: u64) -> Result<Vec<u8>, pagewell::Error> {
        let mut bytes = vec![0; PAGE];
        let n = self.file.read_at(&mut bytes, page * PAGE as u64)?;
        bytes.truncate(n);
        Ok(bytes)
    }

    fn end(self) {
        let Self {
            dir, cache, file, ..
        } = self;
        drop(file);
        assert_all_free(&cache);
        drop(dir);
    }
}

#[test]
fn dirty_pages_of_a_truncated_file_are_written_and_what_was_cut_off_is_an_error() {
    let dirty = dirty();
    let behind = fs::File::options().write(true).open(dirty.path()).unwrap();
    behind.set_len(PAGE as u64 + 100).unwrap();
    // What is cached is as it was; what would have to be read is not there.
    for page in 2..6 {
        assert_eq!(dirty.read(page).unwrap(), dirty.new[page_range(page)]);
    }
    for page in [6, 7] {
        let error = dirty.read(page).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Truncated, "{error}");
    }
    let error = dirty.file.write_at(b"x", 6 * PAGE as u64 + 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Truncated, "{error}");
    dirty.file.sync_data().unwrap();
    // The system has what was dirty where it belongs, and zeros where nobody has written since.
    let mut given = vec![0; 6 * PAGE];
    given[..PAGE + 100].copy_from_slice(&dirty.old[..PAGE + 100]);
    for page in [2, 5] {
        given[page_range(page)].copy_from_slice(&dirty.new[page_range(page)]);
    }
    assert_eq!(fs::read(dirty.path()).unwrap(), given);
    // What is read anew is what the system has.
    dirty.cache.reclaim(usize::MAX);
    for page in 2..6 {
        assert_eq!(dirty.read(page).unwrap(), given[page_range(page)]);
    }
    assert_eq!(dirty.read(6).unwrap_err().kind(), ErrorKind::Truncated);
    // It can be made whole again.
    dirty
        .file
        .write_at(&[7; 2 * PAGE], 6 * PAGE as u64)
        .unwrap();
    dirty.file.sync_all().unwrap();
    given.extend([7; 2 * PAGE]);
    assert_eq!(contents(&dirty.file), given);
    assert_eq!(fs::read(dirty.path()).unwrap(), given);
    dirty.end();
}

#[test]
fn dirty_pages_of_a_removed_file_can_be_synced_and_its_name_is_not_made_again() {
    let dirty = dirty();
    fs::remove_file(dirty.path()).unwrap();
    dirty.file.sync_data().unwrap();
    dirty.cache.reclaim(usize::MAX);
    assert_eq!(contents(&dirty.file), dirty.new);
    dirty.file.append(b"more").unwrap();
    dirty.file.sync_all().unwrap();
    assert!(!dirty.path().exists());
    // Another file of that name has nothing to do with it.
    let options = OpenOptions::new().create_new();
    let other = dirty.cache.open_with(dirty.path(), &options).unwrap();
    assert_eq!(other.size(), 0);
    other.append(b"other").unwrap();
    dirty.file.write_at(b"x", 0).unwrap();
    other.close().map_err(|(_, error)| error).unwrap();
    dirty.file.sync_all().unwrap();
    assert_eq!(fs::read(dirty.path()).unwrap(), b"other");
    dirty.end();
}

#[test]
fn dirty_pages_of_a_replaced_file_do_not_get_into_the_other() {
    let dirty = dirty();
    let kept = dirty.dir.path().join("kept");
    fs::hard_link(dirty.path(), &kept).unwrap();
    let replacement = content(99, 3 * PAGE + 5);
    let from = dirty.dir.path().join("replacement");
    fs::write(&from, &replacement).unwrap();
    fs::rename(&from, dirty.path()).unwrap();
    dirty.file.sync_data().unwrap();
    assert_eq!(fs::read(dirty.path()).unwrap(), replacement);
    assert_eq!(fs::read(&kept).unwrap(), dirty.new);
    // Both can be open at once: a file is what it is, and not what it is called.
    let other = dirty.cache.open_with(dirty.path(), &manual()).unwrap();
    assert_eq!(contents(&other), replacement);
    assert_eq!(contents(&dirty.file), dirty.new);
    other.write_at(b"other", 1).unwrap();
    dirty.file.write_at(b"file", 1).unwrap();
    other.sync_all().unwrap();
    dirty.file.sync_all().unwrap();
    assert_eq!(fs::read(dirty.path()).unwrap()[1..6], *b"other");
    assert_eq!(fs::read(&kept).unwrap()[1..5], *b"file");
    drop(other);
    dirty.end();
}
