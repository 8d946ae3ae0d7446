//! Systems that refuse io_uring: at once, or when it is in use already. Each is a process of its
//! own, since a filter of system calls stays.

#![cfg(not(loom))]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc;

use pagewell_io::engine::{Choice, Chosen, Engine, Job, Reason, Refusal, Settings};
use pagewell_io::{Backend, Direct, FileBackend, FileOptions};
use pagewell_testkit::{Calls, refuse};

use support::{Memory, content, write};

mod support;

/// Says to a test that it is run again as another process, and on which file it should work.
const OTHER: &str = "PAGEWELL_IO_REFUSED";

/// Runs `body` in a process of its own, which runs the test `name` again; it gets a path.
fn apart(name: &str, body: impl FnOnce(&Path)) {
    if let Some(path) = std::env::var_os(OTHER) {
        return body(Path::new(&path));
    }
    let dir = pagewell_testkit::scratch::dir();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(OTHER, dir.path().join("file"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{}{said}",
        String::from_utf8_lossy(&output.stdout)
    );
    eprint!("{said}");
}

fn limit(resource: libc::__rlimit_resource_t, to: u64) {
    let limit = libc::rlimit {
        rlim_cur: to,
        rlim_max: to,
    };
    // SAFETY: the limits are there during the call.
    assert_eq!(unsafe { libc::setrlimit(resource, &raw const limit) }, 0);
}

fn file(path: &Path) -> Arc<dyn Backend> {
    let options = FileOptions::new().create().direct(Direct::Auto);
    let file = FileBackend::open_writable(path, &options).unwrap();
    write(&file, 0, &content(1 << 20)).unwrap();
    Arc::new(file)
}

/// Has `engine` do reads in all ways.
#[track_caller]
fn assert_works(engine: &dyn Engine, file: &Arc<dyn Backend>) {
    let bytes = content(1 << 20);
    let memories: Vec<_> = (0..100).map(|_| Memory::new(4096)).collect();
    let (done, is_done) = mpsc::channel();
    let jobs = |first: usize| {
        let done = done.clone();
        let memories = &memories[first..][..50];
        let job = move |(nr, memory): (usize, &Arc<Memory>)| {
            let done = done.clone();
            let request = memory.read((first + nr) as u64 * 8192, &[4096], move |result| {
                done.send(result).unwrap();
            });
            Job::new(Arc::clone(file), request)
        };
        memories.iter().enumerate().map(job).collect::<Vec<_>>()
    };
    engine.submit_all(&mut jobs(0));
    engine.run(&mut jobs(50));
    for _ in 0..100 {
        let result = is_done
            .recv_timeout(pagewell_testkit::wait::limit())
            .unwrap();
        assert_eq!(result.unwrap(), 4096);
    }
    for (nr, memory) in memories.iter().enumerate() {
        assert!(memory.bytes() == bytes[nr * 8192..][..4096]);
    }
}

/// With `auto` there are threads instead, which work, and a reason; and nothing where only io_uring
/// would do.
#[track_caller]
fn assert_falls_back(path: &Path, refusal: Refusal, says: &str) {
    let error = Chosen::new(Settings::new(Choice::Uring)).unwrap_err();
    assert_eq!(error, refusal);
    let chosen = Chosen::new(Settings::new(Choice::Auto)).unwrap();
    assert_eq!(
        (chosen.engine.name(), chosen.reason),
        ("worker", Reason::NoUring(refusal))
    );
    assert!(
        chosen.reason.to_string().contains(says),
        "{}",
        chosen.reason
    );
    assert_works(&*chosen.engine, &file(path));
}

/// Whether there is io_uring here at all.
fn has_uring() -> bool {
    match Chosen::new(Settings::new(Choice::Uring)) {
        Ok(_) => true,
        Err(refusal) => {
            pagewell_testkit::skip::skipped(&refusal.to_string());
            false
        }
    }
}

#[test]
fn a_sandbox_that_forbids_it() {
    apart("a_sandbox_that_forbids_it", |path| {
        refuse(Calls::Of(libc::SYS_io_uring_setup), libc::EPERM);
        assert_falls_back(path, Refusal::Refused(libc::EPERM), "forbidden");
    });
}

#[test]
fn a_kernel_that_has_none() {
    apart("a_kernel_that_has_none", |path| {
        refuse(Calls::Of(libc::SYS_io_uring_setup), libc::ENOSYS);
        assert_falls_back(path, Refusal::Refused(libc::ENOSYS), "has no io_uring");
    });
}

#[test]
fn no_memory_for_it() {
    apart("no_memory_for_it", |path| {
        refuse(Calls::Of(libc::SYS_io_uring_setup), libc::ENOMEM);
        assert_falls_back(path, Refusal::Refused(libc::ENOMEM), "RLIMIT_MEMLOCK");
    });
}

#[test]
fn a_kernel_that_knows_none_of_its_flags() {
    apart("a_kernel_that_knows_none_of_its_flags", |path| {
        refuse(Calls::Of(libc::SYS_io_uring_setup), libc::EINVAL);
        assert_falls_back(path, Refusal::Refused(libc::EINVAL), "rejected io_uring");
    });
}

#[test]
fn a_sandbox_that_lets_rings_be_made_and_not_entered() {
    apart(
        "a_sandbox_that_lets_rings_be_made_and_not_entered",
        |path| {
            if has_uring() {
                refuse(Calls::Of(libc::SYS_io_uring_enter), libc::EPERM);
                assert_falls_back(path, Refusal::Refused(libc::EPERM), "forbidden");
            }
        },
    );
}

#[test]
fn no_descriptors_for_it() {
    apart("no_descriptors_for_it", |path| {
        if has_uring() {
            let file = file(path);
            limit(libc::RLIMIT_NOFILE, 0);
            let chosen = Chosen::new(Settings::new(Choice::Auto)).unwrap();
            let reason = Reason::NoUring(Refusal::Refused(libc::EMFILE));
            assert_eq!((chosen.engine.name(), chosen.reason), ("worker", reason));
            assert_works(&*chosen.engine, &file);
        }
    });
}

/// Kernels from 5.12 on do not count rings; on older ones it is refused for that. Either way it
/// works.
#[test]
fn no_memory_may_be_locked() {
    apart("no_memory_may_be_locked", |path| {
        limit(libc::RLIMIT_MEMLOCK, 0);
        let chosen = Chosen::new(Settings::new(Choice::Auto)).unwrap();
        assert!(["uring", "worker"].contains(&chosen.engine.name()));
        assert_works(&*chosen.engine, &file(path));
    });
}

/// A ring for each lane is wanted later; where there is none, threads do it.
#[test]
fn descriptors_that_are_short_later() {
    apart("descriptors_that_are_short_later", |path| {
        let Ok(chosen) = Chosen::new(Settings::new(Choice::Uring)) else {
            return assert!(!has_uring());
        };
        let file = file(path);
        limit(libc::RLIMIT_NOFILE, 0);
        assert_works(&*chosen.engine, &file);
    });
}

/// The same while the kernel has many requests. It completes them, though nobody can ask it to any
/// more.
#[test]
fn a_sandbox_that_comes_while_requests_are_under_way() {
    apart(
        "a_sandbox_that_comes_while_requests_are_under_way",
        |path| {
            let Ok(chosen) = Chosen::new(Settings::new(Choice::Uring)) else {
                return assert!(!has_uring());
            };
            let file = file(path);
            // All into the same memory: only that they complete matters. Large ones, so that they
            // take a while.
            let memory = Memory::new(1 << 20);
            let (done, is_done) = mpsc::channel();
            for _ in 0..1500 {
                let done = done.clone();
                let request = memory.read(0, &[1 << 20], move |result| done.send(result).unwrap());
                chosen.engine.submit(Job::new(Arc::clone(&file), request));
            }
            refuse(Calls::Of(libc::SYS_io_uring_enter), libc::EPERM);
            assert_works(&*chosen.engine, &file);
            for _ in 0..1500 {
                let result = is_done
                    .recv_timeout(pagewell_testkit::wait::limit())
                    .unwrap();
                assert_eq!(result.unwrap(), 1 << 20);
            }
            // The engine goes without waiting for a ring that is gone.
            drop(chosen);
            pagewell_testkit::wait::until("no thread is left that had a ring", || {
                let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
                let mut names = tasks.map(|task| std::fs::read_to_string(task.path().join("comm")));
                !names.any(|name| name.is_ok_and(|name| name.starts_with("pagewell-uring")))
            });
        },
    );
}

/// A program that shuts itself in a sandbox when the engine works already: what is under way
/// completes, and all else is done by threads.
#[test]
fn a_sandbox_that_comes_later() {
    apart("a_sandbox_that_comes_later", |path| {
        let Ok(chosen) = Chosen::new(Settings::new(Choice::Uring)) else {
            return assert!(!has_uring());
        };
        let file = file(path);
        assert_works(&*chosen.engine, &file);
        refuse(Calls::Of(libc::SYS_io_uring_enter), libc::EPERM);
        assert_works(&*chosen.engine, &file);
        assert_works(&*chosen.engine, &file);
    });
}

#[test]
fn directory_without_a_sync_does_not_fail_that_of_a_file() {
    apart(
        "directory_without_a_sync_does_not_fail_that_of_a_file",
        |path| {
            let options = FileOptions::new().create();
            // The data of a file is synced by `fdatasync`.
            for errno in [libc::EINVAL, libc::EOPNOTSUPP, libc::ENOSYS] {
                refuse(Calls::Of(libc::SYS_fsync), errno);
                let file = FileBackend::open_writable(path, &options).unwrap();
                write(&file, 0, b"bytes").unwrap();
                file.sync_data().unwrap();
                file.sync_data().unwrap();
                std::fs::remove_file(path).unwrap();
            }
            for errno in [libc::EIO, libc::EACCES] {
                refuse(Calls::Of(libc::SYS_fsync), errno);
                let file = FileBackend::open_writable(path, &options).unwrap();
                for _ in 0..2 {
                    let error = file.sync_data().unwrap_err();
                    assert_eq!(error.raw_os_error(), Some(errno));
                }
            }
        },
    );
}
