//! What only files have: a lock, a name, and a process that opened them.

#![cfg(not(loom))]

use std::io::{self, BufRead, BufReader};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use pagewell_io::{Backend, FileBackend, FileOptions, Forked, identity};

use support::{assert_reads, content, read_all, write};

mod support;

/// Says to a test that it is run again as another process, and on which path it should work.
const OTHER: &str = "PAGEWELL_IO_OTHER_PROCESS";

/// The path to work on, if this is the other process of a test.
fn other_process() -> Option<PathBuf> {
    std::env::var_os(OTHER).map(PathBuf::from)
}

/// Runs the test `name` alone in another process, which works on `path`.
fn run_again(name: &str, path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(OTHER, path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits until the other process has printed `word`.
fn wait_for(word: &str, child: &mut Child) {
    let output = BufReader::new(child.stdout.as_mut().unwrap());
    let said = output.lines().any(|line| line.unwrap().contains(word));
    assert!(said, "the other process ended without {word:?}");
}

fn open(path: &Path) -> io::Result<FileBackend> {
    FileBackend::open_writable(path, &FileOptions::new())
}

fn create(path: &Path) -> io::Result<FileBackend> {
    FileBackend::open_writable(path, &FileOptions::new().create())
}

#[track_caller]
fn assert_busy(answer: io::Result<FileBackend>) {
    let error = answer.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
    assert!(error.to_string().contains("open for writing elsewhere"));
}

#[test]
fn options_say_what_becomes_of_a_file_that_is_there_or_not() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let (there, new) = (FileOptions::new(), FileOptions::new().create_new());

    let missing = FileBackend::open_writable(&path, &there.truncate()).unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    let file = FileBackend::open_writable(&path, &new).unwrap();
    write(&file, 0, &content(10)).unwrap();
    drop(file);
    let exists = FileBackend::open_writable(&path, &new.truncate()).unwrap_err();
    assert_eq!(exists.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(read_all(&open(&path).unwrap()), content(10));
    assert_eq!(read_all(&create(&path).unwrap()), content(10));
    let cut = FileBackend::open_writable(&path, &there.truncate()).unwrap();
    assert_eq!(cut.size().unwrap(), 0);
}

#[test]
fn a_second_writer_is_refused_and_changes_nothing_while_readers_are_welcome() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let writer = create(&path).unwrap();
    write(&writer, 0, &content(100)).unwrap();
    assert_busy(open(&path));
    assert_busy(FileBackend::open_writable(
        &path,
        &FileOptions::new().create().truncate(),
    ));
    let reader = FileBackend::open(&path).unwrap();
    assert_reads("beside the writer", &reader, &content(100), 3, &[200]);
    assert_eq!(reader.id(), writer.id());
    // To close other descriptions of the file does not end the lock, as it would that of a process.
    drop(reader);
    assert_busy(open(&path));
    drop(writer);
    open(&path).unwrap();
}

#[test]
fn a_writer_in_another_process_keeps_this_one_away_until_it_ends() {
    if let Some(path) = other_process() {
        let _writer = create(&path).unwrap();
        println!("locked");
        // Until the other side closes the pipe, or kills this.
        let _ = io::stdin().read_line(&mut String::new());
        return;
    }
    let name = "a_writer_in_another_process_keeps_this_one_away_until_it_ends";
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    for end in [Child::kill, |child: &mut Child| {
        drop(child.stdin.take());
        Ok(())
    }] {
        let mut other = run_again(name, &path);
        wait_for("locked", &mut other);
        assert_busy(open(&path));
        FileBackend::open(&path).unwrap();
        end(&mut other).unwrap();
        other.wait().unwrap();
        open(&path).unwrap();
    }
}

/// Runs `child` in a child made by `fork`; whether it has returned true.
fn in_a_child(child: impl FnOnce() -> bool) -> bool {
    pagewell_testkit::in_child(|| i32::from(!child())) == 0
}

#[test]
fn after_a_fork_only_the_process_that_opened_a_file_can_use_it() {
    if let Some(path) = other_process() {
        let (writer, reader) = (create(&path).unwrap(), FileBackend::open(&path).unwrap());
        let done = in_a_child(|| {
            let answers = [
                write(&writer, 0, b"child"),
                writer.set_size(0),
                writer.sync_data(),
                writer.sync_all(),
                writer.size().map(|_| ()),
                writer.read_at(&[], 0).map(|_| ()),
                reader.size().map(|_| ()),
                reader.read_at(&[], 0).map(|_| ()),
            ];
            let forked = |error: &io::Error| error.get_ref().is_some_and(|e| e.is::<Forked>());
            answers
                .iter()
                .all(|answer| answer.as_ref().is_err_and(forked))
        });
        assert!(done, "every call fails in the child");
        write(&writer, 0, b"parent").unwrap();
        assert_eq!(read_all(&reader), b"parent");
        println!("only the parent");
        return;
    }
    let name = "after_a_fork_only_the_process_that_opened_a_file_can_use_it";
    let dir = pagewell_testkit::scratch::dir();
    let mut other = run_again(name, &dir.path().join("file"));
    wait_for("only the parent", &mut other);
    assert!(other.wait().unwrap().success());
}

#[test]
fn a_child_neither_ends_the_lock_of_its_parent_nor_prolongs_it() {
    if let Some(path) = other_process() {
        let mut writer = Some(create(&path).unwrap());
        assert!(in_a_child(|| {
            drop(writer.take());
            true
        }));
        assert_busy(open(&path));

        let (mut wait, go) = io::pipe().unwrap();
        // SAFETY: the child only waits for its parent, and ends without running anything else.
        let id = unsafe { libc::fork() };
        if id == 0 {
            drop(go);
            let _ = io::Read::read(&mut wait, &mut [0]);
            // SAFETY: it ends the process.
            unsafe { libc::_exit(0) }
        }
        drop(writer);
        let answer = open(&path);
        drop(go);
        // SAFETY: nothing is written for a null status.
        unsafe { libc::waitpid(id, std::ptr::null_mut(), 0) };
        answer.unwrap();
        println!("as it should be");
        return;
    }
    let name = "a_child_neither_ends_the_lock_of_its_parent_nor_prolongs_it";
    let dir = pagewell_testkit::scratch::dir();
    let mut other = run_again(name, &dir.path().join("file"));
    wait_for("as it should be", &mut other);
    assert!(other.wait().unwrap().success());
}

#[test]
fn a_write_that_fails_after_a_first_part_is_an_error_of_the_whole() {
    if let Some(path) = other_process() {
        let limit = libc::rlimit {
            rlim_cur: 1000,
            rlim_max: 1000,
        };
        // SAFETY: the limit is there to be read.
        unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) };
        // SAFETY: to ignore a signal runs no code.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        let writer = create(&path).unwrap();
        // The system writes 100 bytes of this, and says so; then it says that the file is too large.
        let error = write(&writer, 900, &[1; 200]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(writer.size().unwrap(), 1000, "the first part was written");
        println!("an error");
        return;
    }
    let name = "a_write_that_fails_after_a_first_part_is_an_error_of_the_whole";
    let dir = pagewell_testkit::scratch::dir();
    let mut other = run_again(name, &dir.path().join("file"));
    wait_for("an error", &mut other);
    assert!(other.wait().unwrap().success());
}

#[test]
fn a_file_that_lost_its_name_can_be_used() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let file = create(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "somebody else's").unwrap();
    write(&file, 0, b"nameless").unwrap();
    file.sync_all().unwrap();
    assert_eq!(read_all(&file), b"nameless");
    assert_eq!(std::fs::read(&path).unwrap(), b"somebody else's");
    // The name is of another file now, which nobody has open.
    open(&path).unwrap();
}

#[test]
fn links_are_followed_to_the_directory_that_has_the_file() {
    let dir = pagewell_testkit::scratch::dir();
    let there = dir.path().join("there");
    std::fs::create_dir(&there).unwrap();
    let [link, chain, endless] = ["link", "chain", "endless"].map(|name| dir.path().join(name));
    symlink("there/file", &link).unwrap();
    symlink(&link, &chain).unwrap();
    symlink("endless", &endless).unwrap();

    assert_eq!(open(&chain).unwrap_err().kind(), io::ErrorKind::NotFound);
    let new = FileOptions::new().create_new();
    let error = FileBackend::open_writable(&chain, &new).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    let _file = create(&chain).unwrap();
    assert_busy(open(&there.join("file")));
    let error = open(&endless).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ELOOP));
}

#[test]
fn what_has_no_bytes_at_positions_is_not_opened_for_writing() {
    let dir = pagewell_testkit::scratch::dir();
    let mut slash = dir.path().join("new").into_os_string();
    slash.push("/");
    for path in [
        dir.path(),
        Path::new("/"),
        Path::new(".."),
        Path::new(&slash),
    ] {
        let error = create(path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory, "{path:?}");
    }
    assert_eq!(
        create(Path::new("")).unwrap_err().kind(),
        io::ErrorKind::NotFound
    );

    // The kernel makes their bytes when they are read.
    for path in [
        "/proc/self/status",
        "/proc/version",
        "/sys/kernel/mm/transparent_hugepage/enabled",
    ] {
        if let Ok(bytes) = std::fs::read(path) {
            assert!(!bytes.is_empty());
            let error = FileBackend::open(Path::new(path)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{path}");
            assert!(error.to_string().contains("size"), "{error}");
        }
    }

    let socket = dir.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for path in [&socket, Path::new("/dev/null")] {
        let error = create(path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{path:?}");
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

/// Closing any descriptor of a file releases the `F_SETLK` locks of this process.
#[test]
fn a_file_that_could_not_be_locked_can_be_kept_and_locked_later() {
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
    assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
    // The other lock is still held.
    let (file, _) = file.lock_or_keep().unwrap_err();
    lock(libc::F_UNLCK);
    let locked = file.lock_or_keep().unwrap().expect("it is in its place");
    assert!(locked.is_writable());

    // The drop releases the other lock, which `lock_or_keep` avoids.
    drop(locked);
    lock(libc::F_WRLCK);
    let failed = FileBackend::open_unlocked(&path, &options).unwrap().lock();
    assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::ResourceBusy);
    FileBackend::open_writable(&path, &options).unwrap();
}

#[test]
fn value_is_dropped_after_the_unlock_and_before_the_close() {
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
