//! System calls that the system does not have or that a sandbox refuses: the library works without
//! them, or its error names what is missing.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use pagewell::io::Direct;
use pagewell::space::{Policy, Spaces};
use pagewell::{Cache, Error, ErrorKind, OpenOptions};
use pagewell_testkit::skip::skipped;
use pagewell_testkit::wait::block_on;
use pagewell_testkit::{Calls, Resource, content, die_at, limit, refuse, scratch};

/// Errors by which systems refuse a call.
const ERRORS: [i32; 4] = [libc::ENOSYS, libc::EPERM, libc::EINVAL, libc::EOPNOTSUPP];

/// In place of an error: the call ends the process.
const DEADLY: i32 = 0;

/// System calls that the library makes, and that some systems do not have or refuse.
const CALLS: [(&str, Calls, Outcome); 10] = {
    use Calls::{Command, Of};
    use Outcome::{Fails, Works};
    [
        ("statx", Of(libc::SYS_statx), Works),
        ("name_to_handle_at", Of(libc::SYS_name_to_handle_at), Works),
        (
            "F_OFD_SETLK",
            Command(libc::SYS_fcntl, libc::F_OFD_SETLK),
            Fails,
        ),
        ("F_GETLK", Command(libc::SYS_fcntl, libc::F_GETLK), Works),
        ("sync_file_range", Of(libc::SYS_sync_file_range), Works),
        ("io_uring_setup", Of(libc::SYS_io_uring_setup), Works),
        ("io_uring_enter", Of(libc::SYS_io_uring_enter), Works),
        ("membarrier", Of(libc::SYS_membarrier), Works),
        ("madvise", Of(libc::SYS_madvise), Works),
        ("eventfd2", Of(libc::SYS_eventfd2), Works),
    ]
};

/// What a program sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Works,
    /// The open for writing fails, and names the reason.
    Fails,
}

/// Makes each of [`CALLS`] at least once, by what a program does with files and memory.
fn work(folder: &Path) -> Result<(), Error> {
    let cache = Cache::builder().capacity(24 << 20).build()?;
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
    // The system begins to write 4 MiB while the cache writes the other page.
    let options = OpenOptions::new().create().direct(Direct::Never);
    let file = cache.open_with(folder.join("buffered"), &options)?;
    file.write_at(&content(2, 4 << 20), 0)?;
    file.write_at(b"bytes", 5 << 20)?;
    file.sync_data()?;

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

/// Runs [`work`] in the processes of this test. In each process one kind of call is refused with
/// one error. In another process the first call of that kind is deadly, which shows that the
/// library makes it. Each case has a new process, since the standard library remembers whether
/// there is `statx`.
#[test]
fn library_works_without_calls_or_names_them() {
    let case_of = |name: &str, errno: i32| format!("{name} {errno}");
    if let (Some(case), Some(folder)) = (std::env::var_os(CASE), std::env::var_os(FOLDER)) {
        for (name, calls, expected) in CALLS {
            for errno in ERRORS.into_iter().chain([DEADLY]) {
                if *case != *case_of(name, errno) {
                    continue;
                }
                if name == "F_GETLK" {
                    // The library tests for a lock where it has no file handle.
                    refuse(Calls::Of(libc::SYS_name_to_handle_at), libc::ENOSYS);
                }
                match errno {
                    DEADLY => {
                        limit(Resource::Core, 0);
                        die_at(calls);
                    }
                    _ => refuse(calls, errno),
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
        return;
    }
    let test = "refused::library_works_without_calls_or_names_them";
    let has_uring = Cache::builder().build().unwrap().info().engine == "uring";
    for (name, ..) in CALLS {
        for errno in ERRORS.into_iter().chain([DEADLY]) {
            if errno == DEADLY && !has_uring && ["io_uring_enter", "eventfd2"].contains(&name) {
                skipped(&format!("there is no io_uring, so {name} is not called"));
                continue;
            }
            let dir = scratch::dir();
            let output = Command::new(std::env::current_exe().unwrap())
                .args([test, "--exact", "--nocapture", "--test-threads=1"])
                .env(CASE, case_of(name, errno))
                .env(FOLDER, dir.path())
                // With a terminal the harness makes the first of these calls.
                .env_remove("TERM")
                .output()
                .unwrap();
            if errno == DEADLY {
                let signal = output.status.signal();
                assert_eq!(signal, Some(libc::SIGSYS), "{name} was not called");
                continue;
            }
            let (text, told) = (&output.stdout, &output.stderr);
            let (text, told) = (String::from_utf8_lossy(text), String::from_utf8_lossy(told));
            assert!(
                text.contains("as expected"),
                "{name}, error {errno}: {text}{told}"
            );
        }
    }
}
