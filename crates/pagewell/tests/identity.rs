//! File systems with ambiguous inode numbers, and truncations that fail. This program interposes the functions of the C library that
//! return inode numbers, lock and truncate.

#![allow(unsafe_code, clippy::multiple_unsafe_ops_per_block)] // System calls, and their results.

use std::error::Error as _;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use libc::{c_char, c_int, c_long, c_uint};
use pagewell::io::identity::{self, Comparison};
use pagewell::io::{FileBackend, FileOptions};
use pagewell::{Cache, ErrorKind, OpenOptions};
use pagewell_testkit::scratch;
use pagewell_testkit::skip::skipped;

/// Two inode numbers: that of `HIDDEN` is reported as `TOLD`. 0: none.
static TOLD: AtomicU64 = AtomicU64::new(0);
static HIDDEN: AtomicU64 = AtomicU64::new(0);
/// Whether each call reports another number for `TOLD`.
static CHANGES: AtomicBool = AtomicBool::new(false);
/// File handles: all, those of `AT_HANDLE_FID` made of the reported number, or none.
static HANDLES: AtomicU8 = AtomicU8::new(ALL);
const ALL: u8 = 0;
const FIDS: u8 = 1;
const NONE: u8 = 2;
static HAS_BTIME: AtomicBool = AtomicBool::new(true);
static HAS_LOCKS: AtomicBool = AtomicBool::new(true);
/// Whether files may be truncated.
static TRUNCATES: AtomicBool = AtomicBool::new(true);

fn told(inode: u64) -> u64 {
    static LOOKS: AtomicU64 = AtomicU64::new(1 << 40);
    let is_told = inode != 0 && inode == TOLD.load(SeqCst);
    if is_told && CHANGES.load(SeqCst) {
        return LOOKS.fetch_add(1, SeqCst);
    }
    match inode != 0 && inode == HIDDEN.load(SeqCst) {
        true => TOLD.load(SeqCst),
        false => inode,
    }
}

/// Serializes the tests, which share the interposed functions, and resets them at the end.
struct Lies {
    _one: MutexGuard<'static, ()>,
}

impl Lies {
    fn new() -> Self {
        static ONE: Mutex<()> = Mutex::new(());
        Self {
            _one: ONE.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Reports the inode number of `told` for `hidden`.
    fn give_one_number(&self, told: &Path, hidden: &Path) {
        HIDDEN.store(0, SeqCst);
        let [told, hidden] = [told, hidden].map(|path| fs::metadata(path).unwrap().ino());
        TOLD.store(told, SeqCst);
        HIDDEN.store(hidden, SeqCst);
    }
}

impl Drop for Lies {
    fn drop(&mut self) {
        TOLD.store(0, SeqCst);
        HIDDEN.store(0, SeqCst);
        CHANGES.store(false, SeqCst);
        HANDLES.store(ALL, SeqCst);
        for flag in [&HAS_BTIME, &HAS_LOCKS, &TRUNCATES] {
            flag.store(true, SeqCst);
        }
    }
}

/// # Safety
///
/// As `statx`.
#[unsafe(no_mangle)]
unsafe extern "C" fn statx(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    answer: *mut libc::statx,
) -> c_int {
    // SAFETY: guaranteed by the caller; the result is initialized on success.
    unsafe {
        let result = libc::syscall(libc::SYS_statx, directory, path, flags, mask, answer);
        if result == 0 {
            (*answer).stx_ino = told((*answer).stx_ino);
            if !HAS_BTIME.load(SeqCst) {
                (*answer).stx_mask &= !libc::STATX_BTIME;
            }
        }
        result as c_int
    }
}

/// # Safety
///
/// As `fstat`.
#[unsafe(no_mangle)]
unsafe extern "C" fn fstat(file: c_int, answer: *mut libc::stat) -> c_int {
    // SAFETY: guaranteed by the caller; the result is initialized on success.
    unsafe {
        let result = libc::syscall(libc::SYS_fstat, file, answer);
        if result == 0 {
            (*answer).st_ino = told((*answer).st_ino);
        }
        result as c_int
    }
}

/// # Safety
///
/// As `fstatat`.
#[unsafe(no_mangle)]
unsafe extern "C" fn fstatat(
    directory: c_int,
    path: *const c_char,
    answer: *mut libc::stat,
    flags: c_int,
) -> c_int {
    // SAFETY: guaranteed by the caller; the result is initialized on success.
    unsafe {
        let result = libc::syscall(libc::SYS_newfstatat, directory, path, answer, flags);
        if result == 0 {
            (*answer).st_ino = told((*answer).st_ino);
        }
        result as c_int
    }
}

/// # Safety
///
/// As `name_to_handle_at`.
#[unsafe(no_mangle)]
unsafe extern "C" fn name_to_handle_at(
    directory: c_int,
    path: *const c_char,
    handle: *mut libc::c_void,
    mount: *mut c_int,
    flags: c_int,
) -> c_int {
    const FID: c_int = 0x200;
    // SAFETY: guaranteed by the caller; a handle has room for its header and the bytes that it states.
    unsafe {
        match HANDLES.load(SeqCst) {
            ALL => {
                let call = libc::SYS_name_to_handle_at;
                libc::syscall(call, directory, path, handle, mount, flags) as c_int
            }
            FIDS if flags & FID != 0 => {
                let mut stat = std::mem::zeroed::<libc::stat>();
                let flags = flags & libc::AT_EMPTY_PATH;
                if fstatat(directory, path, &raw mut stat, flags) == -1 {
                    return -1;
                }
                let header = handle.cast::<[c_uint; 2]>();
                *header = [8, 1];
                header.add(1).cast::<u64>().write_unaligned(stat.st_ino);
                0
            }
            _ => {
                *libc::__errno_location() = libc::EOPNOTSUPP;
                -1
            }
        }
    }
}

/// # Safety
///
/// As `fcntl`. The third argument is a number or a pointer.
#[unsafe(no_mangle)]
unsafe extern "C" fn fcntl(file: c_int, command: c_int, argument: c_long) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if command == libc::F_OFD_SETLK && !HAS_LOCKS.load(SeqCst) {
            *libc::__errno_location() = libc::EINVAL;
            return -1;
        }
        libc::syscall(libc::SYS_fcntl, file, command, argument) as c_int
    }
}

/// # Safety
///
/// As `ftruncate`.
#[unsafe(no_mangle)]
unsafe extern "C" fn ftruncate64(file: c_int, size: libc::off64_t) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if !TRUNCATES.load(SeqCst) {
            *libc::__errno_location() = libc::EIO;
            return -1;
        }
        libc::syscall(libc::SYS_ftruncate, file, size) as c_int
    }
}

fn cache() -> Cache {
    Cache::builder().capacity(8 << 20).build().unwrap()
}

/// Creates two files of these sizes with equal modification times and different birth times.
fn twins(dir: &Path, sizes: [usize; 2]) -> [PathBuf; 2] {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let make = |name: &str, size| {
        let path = dir.join(name);
        fs::write(&path, name.repeat(size)).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(time).unwrap();
        path
    };
    let a = make("A", sizes[0]);
    let born = |path: &PathBuf| fs::metadata(path).unwrap().created();
    loop {
        let b = make("B", sizes[1]);
        match (born(&a), born(&b)) {
            // The clock of the file system has not ticked yet.
            (Ok(of_a), Ok(of_b)) if of_a == of_b => fs::remove_file(b).unwrap(),
            _ => return [a, b],
        }
    }
}

/// Checks that `result` is the error of an ambiguous file.
#[track_caller]
fn assert_ambiguous<T>(result: Result<T, pagewell::Error>, path: &Path, what: &str) {
    let Err(error) = result else {
        panic!("{what}: another file was joined");
    };
    assert_eq!(error.kind(), ErrorKind::AmbiguousFile, "{what}: {error:?}");
    assert_eq!(error.path(), Some(path), "{what}");
    let source = error.source().expect("the cause").to_string();
    assert!(source.contains("inode number"), "{what}: {source}");
}

/// Hides all evidence of identity except `evidence`.
fn keep_only(evidence: &str) {
    let handles = match evidence {
        "all" | "handle" => ALL,
        "lock, with equal FIDs" => FIDS,
        _ => NONE,
    };
    HANDLES.store(handles, SeqCst);
    HAS_BTIME.store(["all", "born"].contains(&evidence), SeqCst);
}

/// Whether the file system of `path` has this evidence.
fn is_there(evidence: &str, path: &Path) -> bool {
    let is_there = match evidence {
        "born" => fs::metadata(path).unwrap().created().is_ok(),
        "handle" => {
            let file = File::open(path).unwrap();
            let named = identity::named(path).unwrap();
            keep_only("handle");
            let found = identity::compare(file.as_fd(), named.as_fd());
            found.unwrap() == Comparison::Same
        }
        _ => true,
    };
    if !is_there {
        skipped(&format!("{evidence}: the file system does not have it"));
    }
    is_there
}

#[test]
fn writer_rejects_another_file_with_the_same_number() {
    for (evidence, sizes) in [
        ("all", [10_000, 20_000]),
        ("handle", [10_000; 2]),
        ("born", [10_000; 2]),
        ("size", [10_000, 20_000]),
        // Clones differ in nothing else.
        ("lock", [10_000; 2]),
        ("lock, with equal FIDs", [10_000; 2]),
    ] {
        let lies = Lies::new();
        let dir = scratch::dir();
        let [a, b] = twins(dir.path(), sizes);
        lies.give_one_number(&a, &b);
        if !is_there(evidence, &a) {
            continue;
        }
        keep_only(evidence);
        let cache = cache();
        let write = OpenOptions::new().write();
        let open = cache.open_with(&a, &write).unwrap();
        for options in [
            write.clone(),
            write.clone().truncate(),
            write.clone().create(),
            OpenOptions::new(),
        ] {
            assert_ambiguous(cache.open_with(&b, &options), &b, evidence);
        }
        let backend = FileBackend::open_writable(&b, &FileOptions::new()).unwrap();
        assert_ambiguous(cache.open_backend_with(backend, &b, &write), &b, evidence);
        assert_ambiguous(
            cache.open_backend(FileBackend::open(&b).unwrap(), &b),
            &b,
            evidence,
        );
        assert_eq!(fs::read(&b).unwrap(), "B".repeat(sizes[1]).as_bytes());
        // The first file remains usable; the second is usable once the first is closed.
        open.write_at(b"new", 0).unwrap();
        open.close().unwrap();
        let open = cache.open_with(&b, &write).unwrap();
        open.write_at(b"new", 5).unwrap();
        open.close().unwrap();
        assert!(fs::read(&a).unwrap().starts_with(b"newAAAAA"));
        assert!(fs::read(&b).unwrap().starts_with(b"BBBBBnew"));
    }
}

#[test]
fn reader_rejects_another_file_with_the_same_number() {
    for (evidence, sizes) in [
        ("all", [10_000, 20_000]),
        ("handle", [10_000; 2]),
        ("born", [10_000; 2]),
        ("size", [10_000, 20_000]),
        ("modified", [10_000; 2]),
    ] {
        let lies = Lies::new();
        let dir = scratch::dir();
        let [a, b] = twins(dir.path(), sizes);
        if evidence == "modified" {
            let file = File::options().write(true).open(&b).unwrap();
            file.set_modified(SystemTime::now()).unwrap();
        }
        lies.give_one_number(&a, &b);
        if !is_there(evidence, &a) {
            continue;
        }
        keep_only(evidence);
        let cache = cache();
        let open = cache.open(&a).unwrap();
        assert_ambiguous(cache.open(&b), &b, evidence);
        let mut buf = [0; 3];
        open.read_at(&mut buf, 0).unwrap();
        assert_eq!(&buf, b"AAA");
        drop(open);
        let open = cache.open(&b).unwrap();
        open.read_at(&mut buf, 0).unwrap();
        assert_eq!(&buf, b"BBB");
    }
}

/// No false positives while the file changes, and with no evidence at all.
#[test]
fn hard_links_of_a_growing_file_are_one_file() {
    for evidence in ["all", "handle", "born", "nothing"] {
        let _lies = Lies::new();
        keep_only(evidence);
        let dir = scratch::dir();
        let [path, link] = ["file", "link"].map(|name| dir.path().join(name));
        fs::write(&path, "old bytes").unwrap();
        fs::hard_link(&path, &link).unwrap();
        let cache = cache();
        let write = OpenOptions::new().write();
        let open = cache.open_with(&path, &write).unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(SeqCst) {
                    open.append(b"more").unwrap();
                    open.sync_data().unwrap();
                }
            });
            for nr in 0..200 {
                let names = [&path, &link];
                let options = [&write, &OpenOptions::new()];
                let again = cache.open_with(names[nr % 2], options[nr / 2 % 2]);
                // A failure must end the writer too.
                let size = again.map(|file| file.size());
                if !size.as_ref().is_ok_and(|size| *size >= 9) {
                    is_over.store(true, SeqCst);
                }
                assert!(size.unwrap() >= 9, "{evidence}");
            }
            is_over.store(true, SeqCst);
        });
    }
}

#[test]
fn one_backend_given_twice_is_one_file() {
    for evidence in ["all", "nothing"] {
        let _lies = Lies::new();
        keep_only(evidence);
        let dir = scratch::dir();
        let path = dir.path().join("file");
        let options = FileOptions::new().create();
        let backend = std::sync::Arc::new(FileBackend::open_writable(&path, &options).unwrap());
        let (cache, write) = (cache(), OpenOptions::new().write());
        let open = |backend: &std::sync::Arc<FileBackend>| {
            cache.open_backend_with(std::sync::Arc::clone(backend), &path, &write)
        };
        let (first, second) = (open(&backend).unwrap(), open(&backend).unwrap());
        first.write_at(b"new", 0).unwrap();
        assert_eq!(second.size(), 3, "{evidence}");
    }
}

#[test]
fn changing_inode_number_is_reported_as_the_cause() {
    let _lies = Lies::new();
    let dir = scratch::dir();
    let path = dir.path().join("file");
    fs::write(&path, "old bytes").unwrap();
    TOLD.store(fs::metadata(&path).unwrap().ino(), SeqCst);
    CHANGES.store(true, SeqCst);
    let cache = cache();
    let error = cache.open_with(&path, &OpenOptions::new().write().truncate());
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AmbiguousFile, "{error:?}");
    let source = error.source().unwrap().to_string();
    assert!(source.contains("changes the inode number"), "{source}");
    assert_eq!(fs::read(&path).unwrap(), b"old bytes");
    assert_eq!(cache.open(&path).unwrap().size(), 9);
}

#[test]
fn missing_lock_support_is_reported_as_the_failed_step() {
    let _lies = Lies::new();
    let dir = scratch::dir();
    let path = dir.path().join("file");
    fs::write(&path, "old bytes").unwrap();
    HAS_LOCKS.store(false, SeqCst);
    let error = cache()
        .open_with(&path, &OpenOptions::new().write().truncate())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    let step = error.source().unwrap();
    assert!(step.to_string().contains("cannot lock"), "{step}");
    // The error number of the system is preserved.
    let system = step.source().unwrap().downcast_ref::<io::Error>().unwrap();
    assert_eq!(system.raw_os_error(), Some(libc::EINVAL));
    assert_eq!(fs::read(&path).unwrap(), b"old bytes");
}

/// Truncation is the last step of opening. If it fails, the file keeps its bytes and times, and nothing keeps its lock.
#[test]
fn an_open_whose_truncation_fails_leaves_the_file_as_it_was() {
    let _lies = Lies::new();
    let dir = scratch::dir();
    let path = dir.path().join("file");
    fs::write(&path, "old bytes").unwrap();
    let state = || {
        let metadata = fs::metadata(&path).unwrap();
        let times = (metadata.modified().unwrap(), metadata.ctime_nsec());
        (fs::read(&path).unwrap(), times)
    };
    let before = state();
    let (cache, other) = (cache(), cache());
    let options = OpenOptions::new().write().truncate();
    for _ in 0..2 {
        TRUNCATES.store(false, SeqCst);
        let error = cache.open_with(&path, &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error:?}");
        assert_eq!(error.path(), Some(&*path));
        let source = error.source().unwrap().to_string();
        assert!(source.contains("os error 5"), "{source}");
        assert!(state() == before);
        // A second cache may lock it.
        let file = other.open_with(&path, &OpenOptions::new().write()).unwrap();
        assert_eq!(file.size(), 9);
        drop(file);
        assert!(state() == before);
    }
    TRUNCATES.store(true, SeqCst);
    assert_eq!(cache.open_with(&path, &options).unwrap().size(), 0);
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
}
