//! Files that the program opens itself, and descriptors that it gets.

use std::fs;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};

use pagewell::io::{Direct, FileLock, MemoryBackend, Transfers};
use pagewell::{Cache, ErrorKind, OpenOptions};

use crate::support::{self, writable};

fn cache() -> Cache {
    support::cache(256)
}

fn std_options() -> fs::OpenOptions {
    let mut options = fs::File::options();
    options.read(true).write(true);
    options
}

fn memfd(flags: libc::c_uint) -> fs::File {
    // SAFETY: the name ends with NUL.
    let fd = unsafe { libc::memfd_create(c"test".as_ptr(), flags) };
    assert!(fd != -1, "{}", io::Error::last_os_error());
    // SAFETY: the descriptor was just opened.
    unsafe { fs::File::from_raw_fd(fd) }
}

#[test]
fn files_without_a_name_are_written() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let unlinked = std_options().create_new(true).open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let cache = cache();
    for std_file in [unlinked, memfd(libc::MFD_CLOEXEC)] {
        let same = std_file.try_clone().unwrap();
        let file = cache.open_std(std_file, "no name", &writable()).unwrap();
        assert_eq!(file.path().to_str(), Some("no name"));
        file.write_all_at(b"some bytes", 5000).unwrap();
        file.sync_all().unwrap();
        let mut buf = [0; 10];
        same.read_exact_at(&mut buf, 5000).unwrap();
        assert_eq!(&buf, b"some bytes");
        // A second descriptor of the file joins it, one of another cache is refused.
        let joined = cache.open_std(same.try_clone().unwrap(), "again", &writable());
        joined.unwrap().read_exact_at(&mut buf, 5000).unwrap();
        let busy = self::cache().open_std(same.try_clone().unwrap(), "other", &writable());
        assert_eq!(busy.unwrap_err().kind(), ErrorKind::Busy);
        file.close().unwrap();
        let other = self::cache().open_std(same, "other", &writable()).unwrap();
        assert_eq!(other.size(), 5010);
    }
}

#[test]
fn a_file_with_a_name_is_that_of_its_path() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let std_file = std_options().create_new(true).open(&path).unwrap();
    let cache = cache();
    let file = cache.open_std(std_file, &path, &writable()).unwrap();
    file.write_all_at(b"bytes", 0).unwrap();
    let by_path = cache.open_with(&path, &writable().create()).unwrap();
    let mut buf = [0; 5];
    by_path.read_exact_at(&mut buf, 0).unwrap();
    assert_eq!(&buf, b"bytes");
    // A descriptor that the cache does not need is closed, and the file stays locked.
    let second = std_options().open(&path).unwrap();
    drop(cache.open_std(second, &path, &writable()).unwrap());
    let other = self::cache().open_with(&path, &writable());
    assert_eq!(other.unwrap_err().kind(), ErrorKind::Busy);
    drop((file, by_path));

    let std_file = std_options().open(&path).unwrap();
    let truncated = cache
        .open_std(std_file, &path, &writable().create_new().truncate())
        .unwrap();
    assert_eq!(truncated.size(), 0);
    drop(truncated);
    let std_file = std_options().open(&path).unwrap();
    let unlocked = writable().lock(FileLock::None);
    let _unlocked = cache.open_std(std_file, &path, &unlocked).unwrap();
    self::cache().open_with(&path, &writable()).unwrap();
}

/// The error is the same if the cache has the file of the path open.
#[test]
fn descriptors_that_cannot_be_used_are_refused() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    fs::write(&path, b"bytes").unwrap();
    let cache = cache();
    let (reading, writing) = (OpenOptions::new(), writable().truncate());
    let read_only = || fs::File::open(&path).unwrap();
    let write_only = || fs::File::options().write(true).open(&path).unwrap();
    let append = || std_options().append(true).open(&path).unwrap();
    let o_path = || {
        fs::File::options()
            .read(true)
            .custom_flags(libc::O_PATH)
            .open(&path)
            .unwrap()
    };
    let directory = || fs::File::open(dir.path()).unwrap();
    let pipe = || fs::File::from(OwnedFd::from(io::pipe().unwrap().0));
    let sealed = || {
        let file = memfd(libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
        // SAFETY: the descriptor is open, and the command takes no memory.
        let added = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_WRITE) };
        assert_eq!(added, 0);
        file
    };
    for open in [None, Some(&reading), Some(&writable())] {
        let _open = open.map(|options| cache.open_with(&path, options).unwrap());
        for (file, options, kind) in [
            (read_only(), &writing, ErrorKind::PermissionDenied),
            (write_only(), &writing, ErrorKind::PermissionDenied),
            (write_only(), &reading, ErrorKind::PermissionDenied),
            (o_path(), &writing, ErrorKind::PermissionDenied),
            (o_path(), &reading, ErrorKind::PermissionDenied),
            (append(), &writing, ErrorKind::Unavailable),
            (sealed(), &writing, ErrorKind::PermissionDenied),
            (directory(), &writing, ErrorKind::NotAFile),
            (directory(), &reading, ErrorKind::NotAFile),
            (pipe(), &writing, ErrorKind::NotAFile),
            (pipe(), &reading, ErrorKind::NotAFile),
        ] {
            let what = format!("{file:?}, {open:?}");
            let error = cache.open_std(file, "given", options).expect_err(&what);
            assert_eq!(error.kind(), kind, "{what}: {error}");
            assert_eq!(error.path().and_then(|path| path.to_str()), Some("given"));
        }
        assert_eq!(fs::read(&path).unwrap(), b"bytes");
        let file = cache.open_std(append(), "appended", &reading).unwrap();
        let mut buf = [0; 5];
        file.read_exact_at(&mut buf, 0).unwrap();
        assert_eq!(&buf, b"bytes");
    }
}

/// Transfers through the cache are not aligned as the flag requires.
#[test]
fn the_flag_of_direct_transfers_is_that_of_the_options() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    fs::write(&path, [7; 9000]).unwrap();
    let direct = |path| std_options().custom_flags(libc::O_DIRECT).open(path);
    let cache = cache();
    for options in [OpenOptions::new(), writable()] {
        // Some file systems refuse the flag.
        let Ok(std_file) = direct(&path) else { return };
        let file = cache.open_std(std_file, &path, &options).unwrap();
        assert!(matches!(file.transfers(), Some(Transfers::Buffered(_))));
        let mut buf = [0; 3];
        file.read_exact_at(&mut buf, 8997).unwrap();
        assert_eq!(buf, [7; 3]);
        drop(file);
        let Ok(std_file) = std_options().open(&path) else {
            return;
        };
        let file = cache
            .open_std(std_file, &path, &options.direct(Direct::Auto))
            .unwrap();
        file.read_exact_at(&mut buf, 8997).unwrap();
        assert_eq!(buf, [7; 3]);
    }
}

/// Duplicates share the flag. If it were set for an open that fails, transfers of the open file
/// would not be aligned.
#[test]
fn an_open_that_joins_or_fails_leaves_the_flag_of_the_open_file() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let std_file = std_options().create_new(true).open(&path).unwrap();
    let copy = || std_file.try_clone().unwrap();
    let cache = cache();
    let file = cache.open_std(copy(), &path, &writable()).unwrap();
    let direct = writable().direct(Direct::Auto);
    for (cache, options, kind) in [
        (&cache, direct.clone(), ErrorKind::OptionsMismatch),
        (
            &cache,
            OpenOptions::new().direct(Direct::Auto),
            ErrorKind::OptionsMismatch,
        ),
        (&self::cache(), direct, ErrorKind::Busy),
    ] {
        let error = cache.open_std(copy(), &path, &options).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
    file.write_all_at(b"seven b", 1).unwrap();
    file.sync_all().unwrap();
    file.invalidate(0..100);
    let mut buf = [0; 7];
    file.read_exact_at(&mut buf, 1).unwrap();
    assert_eq!(&buf, b"seven b");
}

#[test]
fn a_file_shows_its_descriptor() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let mut written = fs::File::create(&path).unwrap();
    written.write_all(b"bytes").unwrap();
    let cache = cache();
    let file = cache.open(&path).unwrap();
    let descriptor = file.as_fd().expect("a file has one");
    let same = fs::File::from(descriptor.try_clone_to_owned().unwrap());
    assert_eq!(same.metadata().unwrap().len(), 5);
    let memory = cache
        .open_backend(MemoryBackend::new(Vec::new()), "memory")
        .unwrap();
    assert!(memory.as_fd().is_none());
}

#[test]
fn exact_reads_and_writes_are_of_all_bytes() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let cache = cache();
    let file = cache
        .open_with(&path, &OpenOptions::new().create())
        .unwrap();
    // More than the cache has.
    let bytes: Vec<u8> = (0..2 << 20).map(|at: u32| (at / 100) as u8).collect();
    file.write_all_at(&bytes, 10).unwrap();
    let mut buf = vec![0; bytes.len()];
    file.read_exact_at(&mut buf, 10).unwrap();
    assert!(buf == bytes);
    let mut few = [1; 8];
    file.read_exact_at(&mut few, 10).unwrap();
    assert_eq!(few, bytes[..8]);
    file.read_exact_at(&mut [], u64::MAX).unwrap();
    let end = file.size();
    for (offset, nr_missing) in [
        (end - 7, 1),
        (end, 8),
        (end + 100, 8),
        (u64::MAX, 8),
        (u64::MAX - 3, 8),
    ] {
        let error = file.read_exact_at(&mut few, offset).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfRange);
        assert!(
            error
                .to_string()
                .contains(&format!("{nr_missing} of 8 bytes are missing")),
            "{error}"
        );
        assert_eq!(io::Error::from(error).kind(), io::ErrorKind::UnexpectedEof);
    }
    let error = file.write_all_at(&few, u64::MAX - 3).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FileTooLarge);
    assert_eq!(file.size(), end);
}
