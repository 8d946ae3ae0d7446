//! Path resolution: opening by path has the outcome that the standard library has.
//!
//! The tests do not set the sysctls `fs.protected_*`; `.ci/nightly paths` runs them with each value.

#![cfg(not(loom))]
#![allow(clippy::multiple_unsafe_ops_per_block)] // Sequences of system calls.

use std::ffi::CString;
use std::fmt::Debug;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use pagewell_io::{Backend, FileBackend, FileOptions};
use pagewell_testkit::scratch;
use pagewell_testkit::skip::skipped;
use pagewell_testkit::wait::until;

use support::{read_all, write};

mod support;

/// Unprivileged users.
const USERS: [u32; 2] = [64_001, 64_002];

const ROOT: u32 = 0;

/// Whether this process can act as the users, and they can reach temporary files.
fn can_act_as_users() -> bool {
    let dir = scratch::dir();
    let of_all = fs::Permissions::from_mode(0o755);
    fs::set_permissions(dir.path(), of_all).unwrap();
    let can_reach = || become_user(USERS[0]) && fs::metadata(dir.path()).is_ok();
    let can = own_user() == ROOT
        && chown(dir.path(), Some(USERS[0]), Some(USERS[0])).is_ok()
        && thread::scope(|scope| scope.spawn(can_reach).join().unwrap());
    if !can {
        skipped(
            "needs root to act as several users, and a directory for temporary files that they can \
             reach",
        );
    }
    can
}

fn own_user() -> u32 {
    // SAFETY: it takes no memory and does not fail.
    unsafe { libc::geteuid() }
}

/// Gives this thread the credentials of `user`, for good. Returns `false` if the system refuses, as
/// for root of a user namespace.
fn become_user(user: u32) -> bool {
    // Raw system calls: the functions of the C library change the credentials of all threads.
    // SAFETY: the calls take no memory.
    unsafe {
        libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<u32>()) == 0
            && libc::syscall(libc::SYS_setresgid, user, user, user) == 0
            && libc::syscall(libc::SYS_setresuid, user, user, user) == 0
    }
}

/// Runs `work` on a thread with the credentials of `user`.
fn as_user<T: Send>(user: u32, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            assert!(
                user == own_user() || become_user(user),
                "setting credentials"
            );
            work()
        });
        thread.join().unwrap()
    })
}

/// Mode of opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    Read,
    Write,
    Create,
    CreateNew,
    Truncate,
}

const ASKS: [Ask; 5] = [
    Ask::Read,
    Ask::Write,
    Ask::Create,
    Ask::CreateNew,
    Ask::Truncate,
];

/// Opens `path` with the standard library, and writes to it unless it is opened for reading.
fn by_std(path: &Path, ask: Ask) -> io::Result<()> {
    let mut options = File::options();
    options.read(true).write(ask != Ask::Read);
    match ask {
        Ask::Read | Ask::Write => &mut options,
        Ask::Create => options.create(true),
        Ask::CreateNew => options.create_new(true),
        Ask::Truncate => options.truncate(true),
    };
    let mut file = options.open(path)?;
    if ask != Ask::Read {
        file.write_all(b"new")?;
    }
    Ok(())
}

/// As [`by_std`], with a backend.
fn by_backend(path: &Path, ask: Ask) -> io::Result<()> {
    let options = FileOptions::new();
    let options = match ask {
        Ask::Read => return FileBackend::open(path).map(drop),
        Ask::Write => options,
        Ask::Create => options.create(),
        Ask::CreateNew => options.create_new(),
        Ask::Truncate => options.truncate(),
    };
    let file = FileBackend::open_writable(path, &options)?;
    write(&file, 0, b"new")?;
    file.sync_all()
}

/// Outcome of an open: error and its number, if any; and contents of the file afterwards, if it exists.
type Outcome = (Option<Option<i32>>, Option<Vec<u8>>);

/// Sets up the same directory twice with `make`, opens the returned path in both ways, and compares the outcomes. Returns whether the
/// open succeeded.
#[track_caller]
fn assert_alike(
    what: impl Debug,
    user: u32,
    make: impl Fn(&Path) -> PathBuf,
    target: &str,
    ask: Ask,
) -> bool {
    let outcome = |open: fn(&Path, Ask) -> io::Result<()>| -> Outcome {
        let dir = scratch::dir();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = make(dir.path());
        let result = as_user(user, || open(&path, ask));
        let error = result.err().map(|error| error.raw_os_error());
        (error, fs::read(dir.path().join(target)).ok())
    };
    let (std, ours) = (outcome(by_std), outcome(by_backend));
    assert_eq!(ours, std, "{what:?}, user {user}, {ask:?}");
    ours.0.is_none()
}

/// Creates a directory of `owner`: sticky and world-writable, or writable by its owner only.
fn directory(path: &Path, owner: u32, is_sticky: bool) {
    fs::create_dir(path).unwrap();
    chown(path, Some(owner), Some(owner)).unwrap();
    let mode = if is_sticky { 0o1777 } else { 0o755 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Creates a world-writable file.
fn file(path: &Path, owner: u32) {
    fs::write(path, "old bytes").unwrap();
    chown(path, Some(owner), Some(owner)).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
}

/// The rules of `fs.protected_symlinks` and `fs.protected_regular`.
#[test]
fn protected_symlinks_and_protected_regular_apply() {
    if !can_act_as_users() {
        return;
    }
    let owners = [ROOT, USERS[0], USERS[1]];
    let mut nr_opened_and_refused = [0; 2];
    let mut note = |user, is_opened: bool| {
        if user != ROOT {
            nr_opened_and_refused[usize::from(!is_opened)] += 1;
        }
    };
    for is_sticky in [true, false] {
        for directory_owner in [ROOT, USERS[0]] {
            for owner in owners {
                for user in owners {
                    for ask in ASKS {
                        let what = |kind: &str| {
                            format!(
                                "{kind} of {owner} in a directory of {directory_owner}, sticky: \
                                 {is_sticky}"
                            )
                        };
                        for (kind, there) in [("link", true), ("dangling link", false)] {
                            let make = |dir: &Path| {
                                directory(&dir.join("directory"), directory_owner, is_sticky);
                                directory(&dir.join("there"), user, false);
                                if there {
                                    file(&dir.join("there/target"), ROOT);
                                }
                                let link = dir.join("directory/link");
                                symlink("../there/target", &link).unwrap();
                                std::os::unix::fs::lchown(&link, Some(owner), Some(owner)).unwrap();
                                link
                            };
                            note(
                                user,
                                assert_alike(what(kind), user, make, "there/target", ask),
                            );
                        }
                        // The rules for a link at the end of a path do not apply to its other links.
                        let make = |dir: &Path| {
                            directory(&dir.join("directory"), directory_owner, is_sticky);
                            directory(&dir.join("there"), user, false);
                            file(&dir.join("there/target"), ROOT);
                            let link = dir.join("directory/link");
                            symlink("../there", &link).unwrap();
                            std::os::unix::fs::lchown(&link, Some(owner), Some(owner)).unwrap();
                            link.join("target")
                        };
                        note(
                            user,
                            assert_alike(
                                what("link to a directory"),
                                user,
                                make,
                                "there/target",
                                ask,
                            ),
                        );
                        let make = |dir: &Path| {
                            directory(&dir.join("directory"), directory_owner, is_sticky);
                            let path = dir.join("directory/file");
                            file(&path, owner);
                            path
                        };
                        note(
                            user,
                            assert_alike(what("file"), user, make, "directory/file", ask),
                        );
                    }
                }
            }
        }
    }
    assert!(
        nr_opened_and_refused.iter().all(|nr| *nr > 50),
        "{nr_opened_and_refused:?}"
    );
}

/// The rule of `fs.protected_fifos`. A FIFO that the standard library may open is refused as not a file, without waiting for its other end.
#[test]
fn protected_fifos_applies_and_fifos_are_not_files() {
    if !can_act_as_users() {
        return;
    }
    let owners = [ROOT, USERS[0], USERS[1]];
    let mut nr_opened_by_std = 0;
    for is_sticky in [true, false] {
        for (directory_owner, owner) in [(ROOT, 0), (ROOT, 1), (USERS[0], 1), (USERS[0], 2)] {
            // The standard library waits for a writer when it opens for reading.
            for ask in ASKS.into_iter().filter(|ask| *ask != Ask::Read) {
                for user in owners {
                    let outcome = |open: fn(&Path, Ask) -> io::Result<()>| {
                        let dir = scratch::dir();
                        let of_all = fs::Permissions::from_mode(0o755);
                        fs::set_permissions(dir.path(), of_all).unwrap();
                        directory(&dir.path().join("directory"), directory_owner, is_sticky);
                        let path = dir.path().join("directory/fifo");
                        let name = CString::new(path.as_os_str().as_bytes()).unwrap();
                        // SAFETY: the name ends with a zero byte.
                        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o666) }, 0);
                        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
                        chown(&path, Some(owners[owner]), Some(owners[owner])).unwrap();
                        let result = as_user(user, || open(&path, ask));
                        result.err().map(|error| error.raw_os_error())
                    };
                    let (std, ours) = (outcome(by_std), outcome(by_backend));
                    let what = format!(
                        "FIFO of {owner} in a directory of {directory_owner}, sticky: {is_sticky}, \
                         user {user}, {ask:?}"
                    );
                    nr_opened_by_std += usize::from(std.is_none());
                    assert_eq!(ours, Some(std.flatten()), "{what}");
                }
            }
        }
    }
    assert!(nr_opened_by_std > 30, "{nr_opened_by_std}");
}

/// Chains of links, links to directories, relative links, and paths that do not name a file.
#[test]
fn path_resolution_matches_std() {
    type Make = fn(&Path) -> PathBuf;
    fn chain(dir: &Path, len: usize) -> PathBuf {
        file_of_mine(&dir.join("target"));
        let mut last = "target".to_owned();
        for nr in 0..len {
            let next = format!("link{nr}");
            symlink(&last, dir.join(&next)).unwrap();
            last = next;
        }
        dir.join(last)
    }
    fn file_of_mine(path: &Path) {
        fs::write(path, "old bytes").unwrap();
    }
    let forms: [(&str, Make); 16] = [
        ("a chain of 39", |dir| chain(dir, 39)),
        ("a chain of 40", |dir| chain(dir, 40)),
        ("a chain of 41", |dir| chain(dir, 41)),
        ("a link to itself", |dir| {
            symlink("link", dir.join("link")).unwrap();
            dir.join("link")
        }),
        ("a directory behind a link", |dir| {
            fs::create_dir(dir.join("directory")).unwrap();
            symlink("directory", dir.join("link")).unwrap();
            symlink("../target", dir.join("directory/up")).unwrap();
            file_of_mine(&dir.join("target"));
            dir.join("link/up")
        }),
        ("relative links longer than PATH_MAX in total", |dir| {
            let long = "./".repeat(1000);
            file_of_mine(&dir.join("target"));
            symlink(format!("{long}target"), dir.join("l0")).unwrap();
            for nr in 1..8 {
                symlink(format!("{long}l{}", nr - 1), dir.join(format!("l{nr}"))).unwrap();
            }
            dir.join("l7")
        }),
        ("an absolute link", |dir| {
            symlink(dir.join("target"), dir.join("link")).unwrap();
            dir.join("link")
        }),
        ("a link that ends with a slash", |dir| {
            file_of_mine(&dir.join("target"));
            symlink("target/", dir.join("link")).unwrap();
            dir.join("link")
        }),
        ("a path that ends with a slash", |dir| {
            file_of_mine(&dir.join("target"));
            dir.join("target/")
        }),
        ("a missing path that ends with a slash", |dir| {
            dir.join("target/")
        }),
        ("a directory", |dir| dir.join(".")),
        ("the parent directory", |dir| dir.join("..")),
        ("a file as a directory", |dir| {
            file_of_mine(&dir.join("target"));
            dir.join("target/file")
        }),
        ("a missing directory", |dir| dir.join("none/target")),
        ("a name of 256 bytes", |dir| dir.join("n".repeat(256))),
        ("an empty path", |_| PathBuf::new()),
    ];
    for (what, make) in forms {
        for ask in ASKS {
            // The standard library opens directories for reading.
            if ask == Ask::Read && ["a directory", "the parent directory"].contains(&what) {
                continue;
            }
            assert_alike(what, own_user(), make, "target", ask);
        }
    }
    let error = FileBackend::open(Path::new("a\0b")).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidFilename);
    assert!(error.to_string().contains("NUL"), "{error}");
}

/// The kernel follows a magic link to its file, whatever the text of the link.
#[test]
fn magic_link_opens_its_file() {
    let dir = scratch::dir();
    let of = |file: &File| PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let options = FileOptions::new().create();

    let named = File::create(dir.path().join("named")).unwrap();
    let file = FileBackend::open_writable(&of(&named), &options).unwrap();
    write(&file, 0, b"new").unwrap();
    file.sync_all().unwrap();
    assert_eq!(fs::read(dir.path().join("named")).unwrap(), b"new");

    let deleted = File::create_new(dir.path().join("deleted")).unwrap();
    fs::remove_file(dir.path().join("deleted")).unwrap();
    // Another file has the name that the link's text gives.
    fs::write(dir.path().join("deleted (deleted)"), "another").unwrap();
    // SAFETY: the name is terminated; the descriptor has no other owner.
    let memory = unsafe { File::from_raw_fd(libc::memfd_create(c"memory".as_ptr(), 0)) };
    for open in [deleted, memory] {
        let file = FileBackend::open_writable(&of(&open), &options).unwrap();
        write(&file, 0, b"new").unwrap();
        file.sync_all().unwrap();
        assert_eq!(read_all(&file), b"new");
        assert_eq!(open.metadata().unwrap().len(), 3);
        drop(file);
        let new = FileOptions::new().create_new();
        let error = FileBackend::open_writable(&of(&open), &new).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    }
    assert_eq!(
        fs::read(dir.path().join("deleted (deleted)")).unwrap(),
        b"another"
    );
}

#[test]
fn nosymfollow_mount_is_respected() {
    let dir = scratch::dir();
    fs::write(dir.path().join("file"), "old bytes").unwrap();
    let mounted = dir.path().join("mounted");
    fs::create_dir(&mounted).unwrap();
    let answer = thread::scope(|scope| {
        scope
            .spawn(|| {
                let target = std::ffi::CString::new(mounted.to_str().unwrap()).unwrap();
                let none = std::ptr::null();
                // SAFETY: all strings are terminated. The mount namespace ends with the thread.
                let can = unsafe {
                    const NOSYMFOLLOW: libc::c_ulong = 256;
                    let tmpfs = c"tmpfs".as_ptr();
                    libc::unshare(libc::CLONE_NEWNS) == 0
                        && libc::mount(
                            none,
                            c"/".as_ptr(),
                            none,
                            libc::MS_REC | libc::MS_PRIVATE,
                            none.cast(),
                        ) == 0
                        && libc::mount(tmpfs, target.as_ptr(), tmpfs, NOSYMFOLLOW, none.cast()) == 0
                };
                if !can {
                    return Err(io::Error::last_os_error());
                }
                symlink(dir.path().join("file"), mounted.join("link")).unwrap();
                if by_std(&mounted.join("link"), Ask::Read).is_ok() {
                    // Before Linux 5.10.
                    return Err(io::ErrorKind::Unsupported.into());
                }
                for ask in ASKS {
                    let [std, ours] = [by_std, by_backend]
                        .map(|open| open(&mounted.join("link"), ask).unwrap_err().raw_os_error());
                    assert_eq!(ours, std, "{ask:?}");
                }
                Ok(())
            })
            .join()
            .unwrap()
    });
    if let Err(error) = answer {
        skipped(&format!("cannot mount: {error}"));
    }
    assert_eq!(fs::read(dir.path().join("file")).unwrap(), b"old bytes");
}

/// The holder releases the lease some time after the kernel requests it, as a file server does for its client.
#[test]
fn open_waits_for_lease_release() {
    const F_SETLEASE: libc::c_int = 1024;
    const F_GETLEASE: libc::c_int = 1025;
    // The signal to the holder terminates the process by default.
    // SAFETY: no handler is installed.
    unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
    let dir = scratch::dir();
    let path = dir.path().join("file");
    for (lease, ask) in [
        (libc::F_WRLCK, Ask::Read),
        (libc::F_WRLCK, Ask::Write),
        (libc::F_RDLCK, Ask::Write),
        (libc::F_RDLCK, Ask::Truncate),
    ] {
        fs::write(&path, "old bytes").unwrap();
        let holder = File::open(&path).unwrap();
        // SAFETY: the descriptor is open; neither command takes memory.
        let command =
            |command, what: libc::c_int| unsafe { libc::fcntl(holder.as_raw_fd(), command, what) };
        if command(F_SETLEASE, lease) == -1 {
            skipped(&format!(
                "cannot set a lease: {}",
                io::Error::last_os_error()
            ));
            return;
        }
        thread::scope(|scope| {
            let opened = scope.spawn(|| by_backend(&path, ask));
            until("the kernel requests the lease", || {
                command(F_GETLEASE, 0) != lease
            });
            // Not a time limit: an open that does not wait has failed by now.
            thread::sleep(Duration::from_millis(50));
            assert_eq!(command(F_SETLEASE, libc::F_UNLCK), 0);
            opened.join().unwrap().unwrap();
        });
    }
}

/// FUSE passes the flag on with every read.
#[test]
fn descriptors_do_not_have_nonblock() {
    let dir = scratch::dir();
    let path = dir.path().join("file");
    let options = FileOptions::new().create();
    let writable: Arc<dyn Backend> = Arc::new(FileBackend::open_writable(&path, &options).unwrap());
    let readable: Arc<dyn Backend> = Arc::new(FileBackend::open(&path).unwrap());
    for backend in [writable, readable] {
        let raw = backend.raw_file().unwrap();
        // SAFETY: the descriptor is open.
        let flags = unsafe { libc::fcntl(raw.descriptor().as_raw_fd(), libc::F_GETFL) };
        assert_eq!(flags & libc::O_NONBLOCK, 0);
    }
}

/// The directory could not be synced. A file that exists needs no sync of it.
#[test]
fn unreadable_directory_permits_opening_and_no_creation() {
    if !can_act_as_users() {
        return;
    }
    let dir = scratch::dir();
    let directory = dir.path().join("directory");
    fs::create_dir(&directory).unwrap();
    for path in [dir.path(), &directory] {
        chown(path, Some(USERS[0]), Some(USERS[0])).unwrap();
    }
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o300)).unwrap();
    let path = directory.join("file");
    for ask in [Ask::Create, Ask::CreateNew] {
        let error = as_user(USERS[0], || by_backend(&path, ask)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(error.to_string().contains("directory"), "{error}");
    }
    assert!(!path.exists());
    file(&path, USERS[0]);
    for ask in [Ask::Write, Ask::Create] {
        as_user(USERS[0], || by_backend(&path, ask)).unwrap();
    }
    as_user(USERS[0], || {
        let file = FileBackend::open_writable(&path, &FileOptions::new())?;
        let renamed = directory.join("renamed");
        file.sync_data()?;
        fs::rename(&path, &renamed)?;
        fs::rename(&renamed, &path)
    })
    .unwrap();
    assert_eq!(path.metadata().unwrap().size(), 9);
}
