//! What is not as it should be: each gives a clear error, or the natural result, and leaves the
//! cache usable.

use std::error::Error as _;
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use crate::support::{self, FRAME_COST, PAGE, UNTOUCHED, assert_all_free};
use pagewell::io::{Backend, FileId, RacyBytes};
use pagewell::{Builder, Cache, Error, ErrorKind, MAX_FILE_BYTES, Nodes, Op, OpenOptions};
use pagewell_testkit::content;
use pagewell_testkit::skip::skipped;
use pagewell_testkit::wait::bounded;

pub(crate) fn small_cache() -> Cache {
    support::cache(64)
}

/// Checks that the cache still reads files, and has lost nothing.
#[track_caller]
pub(crate) fn assert_usable(cache: &Cache) {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("a good file");
    let bytes = content(1, 100 * PAGE + 1);
    fs::write(&path, &bytes).unwrap();
    let file = cache.open(&path).unwrap();
    let mut buf = vec![0; bytes.len() + 1];
    assert_eq!(file.read_at(&mut buf, 0).unwrap(), bytes.len());
    assert_eq!(buf[..bytes.len()], bytes);
    drop(file);
    assert_all_free(cache);
}

/// Checks an error of opening `path`, and that it can be handed on as the system's.
#[track_caller]
fn assert_says(error: Error, path: &Path, kind: ErrorKind, as_io: io::ErrorKind) {
    assert_eq!(error.kind(), kind, "{error:?}");
    assert_eq!(error.op(), Op::Open);
    assert_eq!(error.path(), Some(path));
    let text = error.to_string();
    let name = path.file_name().unwrap_or(path.as_os_str());
    assert!(text.contains("cannot open"), "{text}");
    assert!(text.contains(name.to_str().unwrap()), "{text}");
    assert!(error.kind().errno() > 0);
    let error = io::Error::from(error);
    assert_eq!(error.kind(), as_io);
    assert!(error.to_string().contains(name.to_str().unwrap()));
}

#[test]
fn a_missing_file_is_not_found() {
    let cache = small_cache();
    let dir = pagewell_testkit::scratch::dir();
    for name in ["missing", "missing/too", ""] {
        let path = dir.path().join("no").join(name);
        let error = cache.open(&path).unwrap_err();
        assert_says(error, &path, ErrorKind::NotFound, io::ErrorKind::NotFound);
    }
    let error = cache.open("").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_usable(&cache);
}

#[test]
fn a_dangling_link_is_not_found_and_a_circle_of_links_is_an_error() {
    let cache = small_cache();
    let dir = pagewell_testkit::scratch::dir();
    let dangling = dir.path().join("dangling");
    std::os::unix::fs::symlink("nowhere", &dangling).unwrap();
    let error = cache.open(&dangling).unwrap_err();
    assert_says(
        error,
        &dangling,
        ErrorKind::NotFound,
        io::ErrorKind::NotFound,
    );
    let circle = dir.path().join("circle");
    std::os::unix::fs::symlink("circle", &circle).unwrap();
    let error = cache.open(&circle).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidPath);
    assert!(error.to_string().contains("circle"), "{error}");
    let source = error.source().expect("what the system says").to_string();
    assert!(source.contains("symbolic links"), "{source}");
    assert_usable(&cache);
}

#[track_caller]
fn assert_not_a_file(cache: &Cache, path: &Path) {
    let error = cache.open(path).unwrap_err();
    let (kind, as_io) = (ErrorKind::NotAFile, io::ErrorKind::IsADirectory);
    assert_says(error, path, kind, as_io);
}

#[test]
fn a_directory_is_not_a_file() {
    let cache = small_cache();
    let dir = pagewell_testkit::scratch::dir();
    for path in [dir.path(), Path::new("/")] {
        assert_not_a_file(&cache, path);
    }
    assert_usable(&cache);
}

#[test]
fn a_pipe_is_not_a_file_and_opening_it_waits_for_nobody() {
    bounded("opening a pipe", || {
        let cache = small_cache();
        let dir = pagewell_testkit::scratch::dir();
        let path = dir.path().join("pipe");
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let error = cache.open(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotAFile);
        assert_eq!(error.path(), Some(&*path));
        assert!(error.to_string().contains("pipe"), "{error}");
        assert_usable(&cache);
    });
}

#[test]
fn a_socket_is_not_a_file() {
    let cache = small_cache();
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("socket");
    let _listener = UnixListener::bind(&path).unwrap();
    let error = cache.open(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotAFile, "{error:?}");
    assert!(error.to_string().contains("socket"), "{error}");
    assert_usable(&cache);
}

#[test]
fn a_path_that_cannot_be_one_is_an_error_that_names_it() {
    let cache = small_cache();
    let file = pagewell_testkit::scratch::file();
    let below_a_file = file.path().join("below");
    let long = "x".repeat(5000);
    for path in [&*below_a_file, Path::new(&long), Path::new("a\0b")] {
        let error = cache.open(path).unwrap_err();
        assert_eq!(error.path(), Some(path));
        assert!(error.source().is_some(), "what the system says");
        assert_eq!(error.kind(), ErrorKind::InvalidPath, "{error:?}");
    }
    assert_usable(&cache);
}

#[test]
fn create_new_of_an_existing_file_fails() {
    let cache = small_cache();
    let file = pagewell_testkit::scratch::file();
    let error = cache
        .open_with(file.path(), &OpenOptions::new().create_new())
        .unwrap_err();
    let (exists, as_io) = (ErrorKind::AlreadyExists, io::ErrorKind::AlreadyExists);
    assert_says(error, file.path(), exists, as_io);
    let open = cache.open_with(file.path(), &OpenOptions::new().write());
    let error = cache
        .open_with(file.path(), &OpenOptions::new().create_new())
        .unwrap_err();
    assert_says(error, file.path(), exists, as_io);
    drop(open);
    assert_usable(&cache);
}

#[test]
fn open_of_a_running_program_is_busy() {
    let cache = small_cache();
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("sleep");
    let Ok(_) = fs::copy("/bin/sleep", &path) else {
        skipped("/bin/sleep is missing");
        return;
    };
    // A concurrently forked child may still hold the copy open for writing.
    let started = loop {
        match Command::new(&path).arg("60").spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                std::thread::yield_now();
            }
            started => break started,
        }
    };
    let Ok(mut running) = started else {
        skipped("cannot run programs in the directory of temporary files");
        return;
    };
    let opened = cache.open_with(&path, &OpenOptions::new().write());
    running.kill().unwrap();
    running.wait().unwrap();
    match opened {
        Ok(_) => skipped("this kernel permits writing to running programs"),
        Err(error) => {
            assert!(error.to_string().contains("executed"), "{error}");
            let (busy, as_io) = (ErrorKind::Busy, io::ErrorKind::ExecutableFileBusy);
            assert_says(error, &path, busy, as_io);
        }
    }
    assert_usable(&cache);
}

#[test]
fn file_has_one_descriptor_after_its_first_sync() {
    if !pagewell_testkit::alone("bad_input::file_has_one_descriptor_after_its_first_sync") {
        return;
    }
    let nr_descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let cache = small_cache();
    let dir = pagewell_testkit::scratch::dir();
    let before = nr_descriptors();
    let open = |nr: u32| {
        let options = OpenOptions::new().create();
        cache
            .open_with(dir.path().join(nr.to_string()), &options)
            .unwrap()
    };
    let files: Vec<_> = (0..10).map(open).collect();
    assert_eq!(nr_descriptors(), before + 20);
    for file in &files {
        file.append(b"bytes").unwrap();
        file.sync_data().unwrap();
    }
    assert_eq!(nr_descriptors(), before + 10);
    drop(files);
    assert_eq!(nr_descriptors(), before);
}

/// The name of the test that runs in a process of another user, for the one below.
const AS_OTHER_USER: &str = "PAGEWELL_TEST_UNREADABLE";

#[test]
fn a_file_without_permission_is_denied() {
    let cache = small_cache();
    if let Some(path) = std::env::var_os(AS_OTHER_USER) {
        let path = Path::new(&path);
        let error = cache.open(path).unwrap_err();
        assert_says(
            error,
            path,
            ErrorKind::PermissionDenied,
            io::ErrorKind::PermissionDenied,
        );
        return;
    }
    let dir = pagewell_testkit::scratch::dir();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let path = dir.path().join("unreadable");
    fs::write(&path, "secret").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();

    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is_root {
        let error = cache.open(&path).unwrap_err();
        assert_says(
            error,
            &path,
            ErrorKind::PermissionDenied,
            io::ErrorKind::PermissionDenied,
        );
        assert_usable(&cache);
        return;
    }
    // Nothing is denied to root: the same test once more, as nobody, from a copy that nobody may
    // run.
    let copy = dir.path().join("test");
    fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    let mut as_nobody = Command::new(&copy);
    std::os::unix::process::CommandExt::uid(&mut as_nobody, 65_534);
    let ran = as_nobody
        .args(["--exact", "bad_input::a_file_without_permission_is_denied"])
        .env(AS_OTHER_USER, &path)
        .current_dir(dir.path())
        .output();
    match ran {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(
                output.status.success() && said.contains("1 passed"),
                "{said}"
            );
        }
        Err(error) => skipped(&format!("root may read everything, and {error}")),
    }
}

fn assert_rejected(builder: Builder, kind: ErrorKind, says: &[&str]) {
    let error = builder.build().unwrap_err();
    assert_eq!((error.kind(), error.op()), (kind, Op::Build), "{error:?}");
    assert_eq!(error.path(), None);
    let text = error.to_string();
    for part in says {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(
        io::Error::from(error).kind(),
        io::ErrorKind::InvalidInput,
        "a setting is the caller's to change"
    );
}

#[test]
fn absurd_capacities_are_rejected_with_the_limit() {
    let machine = fs::read_to_string("/proc/meminfo").unwrap();
    let machine = machine.lines().next().unwrap();
    let machine: u64 = machine.split_whitespace().nth(1).unwrap().parse().unwrap();
    let more_than_machine = machine * 1024 + (1 << 40);
    for capacity in [
        0,
        1,
        PAGE as u64,
        16 * FRAME_COST - 1,
        more_than_machine,
        1 << 63,
        u64::MAX,
    ] {
        let builder = Cache::builder().capacity(capacity);
        let limit = if capacity < 1 << 20 {
            "at least"
        } else {
            "at most"
        };
        assert_rejected(
            builder,
            ErrorKind::InvalidConfig,
            &[&format!("capacity of {capacity} bytes"), limit],
        );
    }
    let smallest = Cache::builder().capacity(16 * FRAME_COST).build().unwrap();
    assert_eq!(smallest.stats().nr_frames, 16);
    assert_usable(&smallest);
}

#[test]
fn odd_page_sizes_are_rejected_everywhere() {
    let file = pagewell_testkit::scratch::file();
    let cache = small_cache();
    for bytes in [
        0,
        1,
        512,
        4095,
        4097,
        6000,
        12_288,
        65_537,
        131_072,
        1 << 40,
        usize::MAX,
    ] {
        let builder = Cache::builder().page_size(bytes);
        let error = builder.build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidPageSize);
        assert!(error.to_string().contains(&format!("({bytes} bytes)")));
        assert!(error.to_string().contains("4, 8, 16, 32 or 64 KiB"));

        let options = OpenOptions::new().page_size(bytes);
        let error = cache.open_with(file.path(), &options).unwrap_err();
        assert_says(
            error,
            file.path(),
            ErrorKind::InvalidPageSize,
            io::ErrorKind::InvalidInput,
        );
    }
    assert_usable(&cache);
}

#[test]
fn node_counts_out_of_range_are_rejected() {
    for nr in [0, 65, usize::MAX] {
        let builder = Cache::builder().nodes(Nodes::Unbound(nr));
        assert_rejected(
            builder,
            ErrorKind::InvalidConfig,
            &[&format!("{nr} memory nodes")],
        );
    }
    let builder = Cache::builder()
        .capacity(16 * FRAME_COST)
        .nodes(Nodes::Unbound(17));
    assert_rejected(builder, ErrorKind::InvalidConfig, &["16 frames"]);
}

#[test]
fn a_cache_too_small_for_large_pages_says_so_when_a_file_is_opened() {
    let file = pagewell_testkit::scratch::file();
    let cache: Cache = support::cache(63);
    let options = OpenOptions::new().page_size(16 * PAGE);
    let error = cache.open_with(file.path(), &options).unwrap_err();
    assert!(error.to_string().contains("63 frames"), "{error}");
    assert_says(
        error,
        file.path(),
        ErrorKind::InvalidConfig,
        io::ErrorKind::InvalidInput,
    );
    assert_usable(&cache);
}

#[test]
fn positions_at_and_past_the_end_read_nothing_and_pin_nothing() {
    let cache = small_cache();
    let file = pagewell_testkit::scratch::file();
    for len in [0, 1, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE] {
        let bytes = content(len as u64, len);
        fs::write(file.path(), &bytes).unwrap();
        for page_size in [PAGE, 4 * PAGE] {
            let options = OpenOptions::new().page_size(page_size);
            let open = cache.open_with(file.path(), &options).unwrap();
            assert_eq!(open.size(), len as u64);
            let end = len as u64;
            for pos in [
                end,
                end + 1,
                end.next_multiple_of(page_size as u64),
                1 << 32,
                1 << 48,
                i64::MAX as u64,
                1 << 63,
                u64::MAX - 1,
                u64::MAX,
            ] {
                for buf_len in [0, 1, 8, 64, 65, 3 * page_size] {
                    let mut buf = vec![UNTOUCHED; buf_len];
                    assert_eq!(open.read_at(&mut buf, pos).unwrap(), 0);
                    assert_eq!(open.read_at_referenced(&mut buf, pos).unwrap(), 0);
                    assert!(buf.iter().all(|&b| b == UNTOUCHED || b == 0));
                }
            }
            let nr_pages = end.div_ceil(page_size as u64);
            for page in [
                nr_pages,
                nr_pages + 1,
                1 << 36,
                1 << 52,
                u64::MAX / page_size as u64,
                u64::MAX / page_size as u64 + 1,
                u64::MAX,
            ] {
                let error = open.pin(page).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::OutOfRange);
                assert_eq!(error.op(), Op::Pin);
                assert!(error.to_string().contains(file.path().to_str().unwrap()));
                let error = open.pin_owned(page).unwrap_err();
                assert_eq!(io::Error::from(error).kind(), io::ErrorKind::InvalidInput);
            }
            if let Some(last) = nr_pages.checked_sub(1) {
                let start = last as usize * page_size;
                assert_eq!(*open.pin(last).unwrap(), bytes[start..]);
                assert_eq!(open.read_at(&mut [], 0).unwrap(), 0);
                assert_eq!(open.read_at(&mut [0; 9], end - 1).unwrap(), 1);
            }
        }
    }
    assert_usable(&cache);
}

#[test]
fn ranges_of_any_kind_can_be_invalidated() {
    let cache = small_cache();
    let file = pagewell_testkit::scratch::file();
    let bytes = content(2, 5 * PAGE);
    fs::write(file.path(), &bytes).unwrap();
    let open = cache.open(file.path()).unwrap();
    let mut buf = vec![0; bytes.len()];
    for range in [
        0..0,
        7..7,
        u64::MAX..u64::MAX,
        0..u64::MAX,
        u64::MAX - 1..u64::MAX,
        1 << 40..1 << 41,
        PAGE as u64 - 1..PAGE as u64 + 1,
        // Backwards: nothing.
        #[allow(clippy::reversed_empty_ranges)]
        {
            9..3
        },
    ] {
        assert_eq!(open.read_at(&mut buf, 0).unwrap(), bytes.len());
        open.invalidate(range);
        assert_eq!(open.read_at(&mut buf, 0).unwrap(), bytes.len());
        assert_eq!(buf, bytes);
    }
    drop(open);
    assert_usable(&cache);
}

#[test]
fn a_sparse_file_reads_zeros_where_it_has_nothing() {
    let cache = small_cache();
    let file = pagewell_testkit::scratch::file();
    let len = (1 << 30) + 5;
    file.as_file().set_len(len).unwrap();
    file.as_file().write_all_at(b"island", 1 << 29).unwrap();
    for page_size in [PAGE, 16 * PAGE] {
        let options = OpenOptions::new().page_size(page_size);
        let open = cache.open_with(file.path(), &options).unwrap();
        assert_eq!(open.size(), len);
        for pos in [0, 12_345, (1 << 29) - 4096, (1 << 30) - 100] {
            let mut buf = [UNTOUCHED; 4000];
            let n = open.read_at(&mut buf, pos).unwrap();
            assert_eq!(n as u64, (len - pos).min(4000));
            assert!(buf[..n].iter().all(|&b| b == 0), "at {pos}");
        }
        let mut buf = [UNTOUCHED; 10];
        assert_eq!(open.read_at(&mut buf, (1 << 29) - 2).unwrap(), 10);
        assert_eq!(&buf, b"\0\0island\0\0");
        assert_eq!(open.pin(len / page_size as u64).unwrap().len(), 5);
    }
    assert_usable(&cache);
}

#[test]
fn an_empty_file_has_nothing_to_read() {
    let cache = small_cache();
    let file = pagewell_testkit::scratch::file();
    let open = cache.open(file.path()).unwrap();
    assert_eq!(open.size(), 0);
    assert_eq!(open.read_at(&mut [0; 10], 0).unwrap(), 0);
    assert_eq!(open.pin(0).unwrap_err().kind(), ErrorKind::OutOfRange);
    assert_eq!(open.refresh().unwrap(), 0);
    assert_eq!(cache.stats().nr_fills, 0);
    fs::write(file.path(), "no longer").unwrap();
    assert_eq!(open.read_at(&mut [0; 10], 0).unwrap(), 0);
    assert_eq!(open.refresh().unwrap(), 9);
    assert_eq!(*open.pin(0).unwrap(), *b"no longer");
    drop(open);
    assert_usable(&cache);
}

#[test]
fn devices_without_positions_are_not_files() {
    let cache = small_cache();
    for path in ["/dev/null", "/dev/zero", "/dev/full", "/dev/urandom"] {
        let path = Path::new(path);
        if !path.exists() {
            skipped(&format!("no {}", path.display()));
            continue;
        }
        let error = cache.open(path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotAFile);
        assert!(error.to_string().contains(path.to_str().unwrap()));
    }
    assert_usable(&cache);
}

/// It has bytes, and a cache of pages can only go by the size.
#[test]
fn file_of_the_kernel_without_a_size_is_not_a_file() {
    let cache = small_cache();
    for path in [
        "/proc/self/status",
        "/sys/kernel/mm/transparent_hugepage/enabled",
    ] {
        let path = Path::new(path);
        if !path.exists() {
            skipped(&format!("no {}", path.display()));
            continue;
        }
        assert_not_a_file(&cache, path);
    }
    assert_usable(&cache);
}

#[test]
fn a_file_removed_or_replaced_while_it_is_open_stays_readable() {
    let cache = small_cache();
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let old = content(3, 9 * PAGE);
    fs::write(&path, &old).unwrap();
    let open = cache.open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let new = content(4, 2 * PAGE);
    fs::write(&path, &new).unwrap();
    let other = cache.open(&path).unwrap();
    let mut buf = vec![0; old.len()];
    assert_eq!(open.read_at(&mut buf, 0).unwrap(), old.len());
    assert_eq!(buf, old);
    assert_eq!(other.read_at(&mut buf, 0).unwrap(), new.len());
    assert_eq!(buf[..new.len()], new);
    drop((open, other));
    assert_usable(&cache);
}

/// A file of any size without bytes of its own: each is the low byte of its page's number.
#[derive(Debug)]
struct Endless {
    size: io::Result<u64>,
}

impl Backend for Endless {
    fn read_at(&self, bufs: &[RacyBytes<'_>], pos: u64) -> io::Result<usize> {
        let mut done = 0;
        for buf in bufs {
            let page = (pos + done as u64) / PAGE as u64;
            buf.copy_from(0, &vec![page as u8; buf.len()]);
            done += buf.len();
        }
        Ok(done)
    }

    fn size(&self) -> io::Result<u64> {
        match &self.size {
            Ok(size) => Ok(*size),
            Err(error) => Err(error.kind().into()),
        }
    }

    fn id(&self) -> FileId {
        FileId {
            device: u64::MAX - 1,
            inode: 0,
        }
    }
}

#[test]
fn files_are_read_up_to_the_largest_size_and_rejected_beyond() {
    let cache = small_cache();
    for size in [MAX_FILE_BYTES + 1, 1 << 63, u64::MAX] {
        let error = cache
            .open_backend(Endless { size: Ok(size) }, "endless")
            .unwrap_err();
        assert!(error.to_string().contains(&size.to_string()), "{error}");
        assert_says(
            error,
            Path::new("endless"),
            ErrorKind::FileTooLarge,
            io::ErrorKind::FileTooLarge,
        );
    }
    let size = MAX_FILE_BYTES;
    let file = cache
        .open_backend(Endless { size: Ok(size) }, "endless")
        .unwrap();
    for pos in [0, 1 << 40, size - 100] {
        let mut buf = [0; 200];
        let n = file.read_at(&mut buf, pos).unwrap();
        assert_eq!(n as u64, (size - pos).min(200));
        assert!(buf[..n].iter().all(|&b| b == (pos / PAGE as u64) as u8));
    }
    assert_eq!(file.read_at(&mut [0; 200], size).unwrap(), 0);
    file.invalidate(0..u64::MAX);
    drop(file);
    assert_usable(&cache);
}

#[test]
fn a_size_that_cannot_be_had_is_an_error_of_the_open() {
    let cache = small_cache();
    let size = Err(io::ErrorKind::PermissionDenied.into());
    let error = cache
        .open_backend(Endless { size }, "sizeless")
        .unwrap_err();
    assert_says(
        error,
        Path::new("sizeless"),
        ErrorKind::PermissionDenied,
        io::ErrorKind::PermissionDenied,
    );
    assert_usable(&cache);
}

#[test]
fn errors_of_the_storage_keep_their_kind_when_handed_on() {
    for kind in [
        io::ErrorKind::TimedOut,
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::Unsupported,
        io::ErrorKind::ReadOnlyFilesystem,
    ] {
        let size = Err(kind.into());
        let error = small_cache()
            .open_backend(Endless { size }, "broken")
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert_eq!(io::Error::from(error).kind(), kind);
    }
}
