//! Limits of the process on memory and addresses.

#![allow(unsafe_code)] // Limits, and locked memory.

use std::fs;

use pagewell::{Cache, ErrorKind, OpenOptions};
use pagewell_testkit::skip::skipped;
use pagewell_testkit::{alone, scratch};

/// A field of `/proc/self/status`, in bytes.
fn status(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .unwrap();
    let kib = line.trim_start_matches(':').trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() << 10
}

fn set_limit(resource: libc::__rlimit_resource_t, bytes: u64) {
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: bytes,
    };
    // SAFETY: the pointer is valid for reads.
    assert_eq!(unsafe { libc::setrlimit(resource, &raw const limit) }, 0);
}

/// The index is reserved for growth to 1 TiB and more.
#[test]
fn index_of_a_process_with_locked_memory_is_not_locked() {
    if !alone("limits::index_of_a_process_with_locked_memory_is_not_locked") {
        return;
    }
    // SAFETY: no pointers.
    if unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } != 0 {
        return skipped("this process may not lock its memory");
    }
    let dir = scratch::dir();
    let cache = Cache::builder().capacity(1 << 20).build().unwrap();
    let before = status("VmRSS");
    let open = |nr: u32| {
        let path = dir.path().join(nr.to_string());
        cache.open_with(path, &OpenOptions::new().create()).unwrap()
    };
    let files: Vec<_> = (0..4).map(open).collect();
    for file in &files {
        file.append(&[1; 100_000]).unwrap();
        file.sync_data().unwrap();
    }
    // What is locked is in memory. Threads have stacks of 2 MiB.
    let more = status("VmRSS") - before;
    assert!(more < 64 << 20, "{more} bytes were locked");
    for file in files {
        file.close().map_err(|(_, error)| error).unwrap();
    }
}

#[test]
fn error_names_the_limit_on_addresses() {
    if !alone("limits::error_names_the_limit_on_addresses") {
        return;
    }
    let dir = scratch::dir();
    let cache = Cache::builder().capacity(1 << 20).build().unwrap();
    let options = OpenOptions::new().create();
    set_limit(libc::RLIMIT_AS, status("VmSize") + (3 << 30));
    let first = cache.open_with(dir.path().join("1"), &options).unwrap();
    let error = cache.open_with(dir.path().join("2"), &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert!(error.to_string().contains("RLIMIT_AS is"), "{error}");
    first.append(b"the first file works").unwrap();
    first.close().map_err(|(_, error)| error).unwrap();
    cache.open_with(dir.path().join("2"), &options).unwrap();
    let error = Cache::builder().capacity(5 << 30).build().unwrap_err();
    if error.kind() == ErrorKind::OutOfMemory {
        assert!(error.to_string().contains("RLIMIT_AS is"), "{error}");
    } else {
        // The machine has less.
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    }
}
