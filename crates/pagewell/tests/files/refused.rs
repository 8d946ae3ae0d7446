//! System calls that are missing, or refused by a sandbox: the library works with less, or says what it lacks.

use std::path::Path;
use std::process::Command;

use pagewell::io::Direct;
use pagewell::space::{Policy, Spaces};
use pagewell::{Cache, Error, ErrorKind, OpenOptions};
use pagewell_testkit::wait::block_on;
use pagewell_testkit::{content, refuse, refuse_command, scratch};

/// Errors by which systems refuse a call.
const ERRORS: [i32; 4] = [libc::ENOSYS, libc::EPERM, libc::EINVAL, libc::EOPNOTSUPP];

#[derive(Clone, Copy, Debug)]
enum Refused {
    Call(libc::c_long),
    Command(libc::c_long, i32),
}

/// The calls that the library makes and that some systems do not have.
const CALLS: [(&str, Refused, Outcome); 16] = {
    use Outcome::{Fails, Works};
    use Refused::{Call, Command};
    [
        ("openat2", Call(libc::SYS_openat2), Works),
        ("statx", Call(libc::SYS_statx), Works),
        (
            "name_to_handle_at",
            Call(libc::SYS_name_to_handle_at),
            Works,
        ),
        (
            "F_OFD_SETLK",
            Command(libc::SYS_fcntl, libc::F_OFD_SETLK),
            Fails,
        ),
        (
            "F_OFD_GETLK",
            Command(libc::SYS_fcntl, libc::F_OFD_GETLK),
            Works,
        ),
        ("fallocate", Call(libc::SYS_fallocate), Works),
        ("sync_file_range", Call(libc::SYS_sync_file_range), Works),
        ("io_uring_setup", Call(libc::SYS_io_uring_setup), Works),
        ("io_uring_enter", Call(libc::SYS_io_uring_enter), Works),
        (
            "io_uring_register",
            Call(libc::SYS_io_uring_register),
            Works,
        ),
        ("membarrier", Call(libc::SYS_membarrier), Works),
        ("mbind", Call(libc::SYS_mbind), Works),
        ("madvise", Call(libc::SYS_madvise), Works),
        ("memfd_create", Call(libc::SYS_memfd_create), Works),
        ("eventfd2", Call(libc::SYS_eventfd2), Works),
        ("getcpu", Call(libc::SYS_getcpu), Works),
    ]
};

/// What a program sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Works,
    /// The open for writing fails, and names the reason.
    Fails,
}

/// Does some of everything.
fn work(folder: &Path) -> Result<(), Error> {
    let cache = Cache::builder().capacity(4 << 20).build()?;
    let path = folder.join("file");
    let options = OpenOptions::new().create().direct(Direct::Auto);
    let file = cache.open_with(&path, &options)?;
    let bytes = content(1, 300_000);
    file.write_at(&bytes, 0)?;
    file.sync_data()?;
    file.append(b"more")?;
    block_on(file.sync_data_async())?;
    file.invalidate(0..u64::MAX);
    let mut buf = vec![0; bytes.len()];
    assert_eq!(file.read_at(&mut buf, 0)?, bytes.len());
    assert!(buf == bytes);
    file.invalidate(0..u64::MAX);
    let (buf, result) = block_on(file.read_at_async(buf, 0));
    assert_eq!(result?, bytes.len());
    assert!(buf == bytes);
    let again = cache.open(&path)?;
    // Pinned again and again, it is published in a hazard slot.
    for _ in 0..100 {
        let pin = again.pin(1)?;
        assert_eq!(pin[..8], bytes[4096..4104]);
    }
    let mut page = file.pin_mut(2)?;
    page[..3].copy_from_slice(b"new");
    drop(page);
    file.set_size(100_000)?;
    file.sync_all()?;
    drop(again);
    file.close().map_err(|(_, error)| error)?;
    assert_eq!(std::fs::read(&path).unwrap()[8192..8195], *b"new");

    let space = Spaces::from_source(cache.frames()).space().unwrap();
    let area = space.map(1 << 20, Policy::Local).unwrap();
    space.write(area.start, b"bytes").unwrap();
    let fork = space.fork().unwrap();
    let mut buf = [0; 5];
    fork.read(area.start, &mut buf).unwrap();
    assert_eq!(buf, *b"bytes");
    Ok(())
}

/// Environment variables for the process of one case: its name with the error, and a folder.
const CASE: &str = "PAGEWELL_TEST_REFUSED";
const FOLDER: &str = "PAGEWELL_TEST_FOLDER";

/// A new process for each case: the standard library remembers whether there is `statx`.
#[test]
fn calls_that_a_system_lacks_are_done_without_or_named() {
    let case_of = |name: &str, errno: i32| format!("{name} {errno}");
    if let (Some(case), Some(folder)) = (std::env::var_os(CASE), std::env::var_os(FOLDER)) {
        for (name, call, expected) in CALLS {
            for errno in ERRORS {
                if *case == *case_of(name, errno) {
                    match call {
                        Refused::Call(call) => refuse(call, errno),
                        Refused::Command(call, command) => refuse_command(call, command, errno),
                    }
                    match (work(Path::new(&folder)), expected) {
                        (Ok(()), Outcome::Works) => {}
                        (Err(error), Outcome::Fails) => {
                            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                        }
                        (result, _) => panic!("{name}, error {errno}: {result:?}"),
                    }
                    println!("as expected");
                }
            }
        }
        return;
    }
    let test = "refused::calls_that_a_system_lacks_are_done_without_or_named";
    for (name, ..) in CALLS {
        for errno in ERRORS {
            let dir = scratch::dir();
            let output = Command::new(std::env::current_exe().unwrap())
                .args([test, "--exact", "--nocapture", "--test-threads=1"])
                .env(CASE, case_of(name, errno))
                .env(FOLDER, dir.path())
                // With a terminal the harness makes the first of these calls.
                .env_remove("TERM")
                .output()
                .unwrap();
            let (text, told) = (&output.stdout, &output.stderr);
            let (text, told) = (String::from_utf8_lossy(text), String::from_utf8_lossy(told));
            assert!(
                text.contains("as expected"),
                "{name}, error {errno}: {text}{told}"
            );
        }
    }
}
