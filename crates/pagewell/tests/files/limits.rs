//! Limits of the process on memory, addresses and open files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pagewell::{Cache, ErrorKind, OpenOptions};
use pagewell_testkit::skip::skipped;
use pagewell_testkit::wait;
use pagewell_testkit::{Resource, alone, limit, scratch};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use crate::bad_input::{assert_usable, small_cache};

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

/// Locks a page of the stack, and returns whether the system permits it.
#[allow(unsafe_code)] // A system call.
fn lock_stack() -> bool {
    let byte = 0_u8;
    // SAFETY: the call changes no contents.
    unsafe { libc::mlock((&raw const byte).cast(), 1) == 0 }
}

/// The index is reserved for growth to 1 TiB and more.
#[test]
fn index_of_a_process_with_locked_memory_is_not_locked() {
    if !alone("limits::index_of_a_process_with_locked_memory_is_not_locked") {
        return;
    }
    if mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE).is_err() {
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

/// Drops CAP_IPC_LOCK of the calling thread, which may then lock as much memory as RLIMIT_MEMLOCK.
fn give_up_locking() {
    let mut sets = capabilities(None).unwrap();
    sets.effective.remove(CapabilitySet::IPC_LOCK);
    set_capabilities(None, sets).unwrap();
}

/// Opens ten files for writing in a cache of 1 MiB, and writes to each. Calls `check` while all are
/// open.
fn assert_ten_files_can_be_written(check: impl Fn()) {
    let dir = scratch::dir();
    let cache = Cache::builder().capacity(1 << 20).build().unwrap();
    let open = |nr: u32| {
        let path = dir.path().join(nr.to_string());
        cache.open_with(path, &OpenOptions::new().create()).unwrap()
    };
    let files: Vec<_> = (0..10).map(open).collect();
    check();
    for file in &files {
        for _ in 0..16 {
            file.append(&[1; 1 << 16]).unwrap();
        }
        let too_far = file.write_at(&[1], 1 << 40).unwrap_err();
        assert_eq!(too_far.kind(), ErrorKind::FileTooLarge);
        file.write_at(&[1], (64 << 20) - 1).unwrap();
    }
    for file in files {
        file.close().map_err(|(_, error)| error).unwrap();
    }
}

fn assert_ten_files_leave_the_program(resource: Resource) {
    limit(resource, 1 << 30);
    assert_ten_files_can_be_written(|| {
        assert!(Vec::<u8>::new().try_reserve_exact(384 << 20).is_ok());
    });
}

#[test]
fn files_are_written_with_few_addresses() {
    if alone("limits::files_are_written_with_few_addresses") {
        assert_ten_files_leave_the_program(Resource::As);
    }
}

#[test]
fn files_are_written_with_little_data() {
    if alone("limits::files_are_written_with_little_data") {
        assert_ten_files_leave_the_program(Resource::Data);
    }
}

#[test]
fn files_are_written_with_little_memory_that_may_be_locked() {
    if !alone("limits::files_are_written_with_little_memory_that_may_be_locked") {
        return;
    }
    give_up_locking();
    // Memory is locked from now on; that of the program is not.
    limit(Resource::Memlock, 8 << 20);
    if mlockall(MlockAllFlags::FUTURE).is_err() {
        return skipped("this process may not lock its memory");
    }
    assert_ten_files_can_be_written(|| {});
}

/// Creates a file of 1 TiB without data, whose index needs 2 GiB of addresses.
fn huge_file(dir: &Path, name: &str) -> PathBuf {
    let path = dir.join(name);
    let file = fs::File::create(&path).unwrap();
    file.set_len(1 << 40).unwrap();
    path
}

/// The limit on locked memory is named only where it may be the cause.
#[test]
fn error_names_the_limit_on_locked_memory() {
    if !alone("limits::error_names_the_limit_on_locked_memory") {
        return;
    }
    let cache = Cache::builder().capacity(1 << 20).build().unwrap();
    limit(Resource::As, status("VmSize") + (64 << 20));
    let dir = scratch::dir();
    let huge = huge_file(dir.path(), "1");
    let open = || {
        let error = cache.open(&huge).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        let text = error.to_string();
        assert_eq!(io::Error::from(error).kind(), io::ErrorKind::OutOfMemory);
        text
    };
    let text = open();
    assert!(!text.contains("RLIMIT_MEMLOCK"), "{text}");
    limit(Resource::Memlock, 64 << 10);
    if !lock_stack() {
        return skipped("this process may not lock its memory");
    }
    let text = open();
    assert!(text.contains("RLIMIT_MEMLOCK is"), "{text}");
}

#[test]
fn error_names_the_limit_on_addresses() {
    if !alone("limits::error_names_the_limit_on_addresses") {
        return;
    }
    let dir = scratch::dir();
    let cache = Cache::builder().capacity(1 << 20).build().unwrap();
    let [one, two] = ["1", "2"].map(|name| huge_file(dir.path(), name));
    limit(Resource::As, status("VmSize") + (3 << 30));
    let first = cache.open(&one).unwrap();
    let error = cache.open(&two).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert!(error.to_string().contains("RLIMIT_AS is"), "{error}");
    let mut byte = [7];
    first.read_at(&mut byte, 1 << 30).unwrap();
    assert_eq!(byte, [0]);
    drop(first);
    cache.open(&two).unwrap();
    let error = Cache::builder().capacity(5 << 30).build().unwrap_err();
    if error.kind() == ErrorKind::OutOfMemory {
        assert!(error.to_string().contains("RLIMIT_AS is"), "{error}");
    } else {
        // The machine has less.
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    }
}

/// Opens as many files as the process may, after lowering that number.
fn all_descriptors() -> Vec<fs::File> {
    limit(Resource::Nofile, 500);
    let open = |_| fs::File::open("/dev/null").ok();
    (0..501).map_while(open).collect()
}

#[test]
fn limit_of_open_files_is_reported() {
    if !alone("limits::limit_of_open_files_is_reported") {
        return;
    }
    let cache = small_cache();
    let file = scratch::file();
    let others = all_descriptors();
    let error = cache.open(file.path()).unwrap_err();
    assert!(error.to_string().contains("RLIMIT_NOFILE"), "{error}");
    assert_eq!(error.kind(), ErrorKind::LimitReached);
    let error = cache
        .open_with(file.path(), &OpenOptions::new().write())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitReached);
    drop(others);
    assert_usable(&cache);
}

#[test]
fn engine_that_a_limit_has_refused_is_tried_again() {
    if !alone("limits::engine_that_a_limit_has_refused_is_tried_again") {
        return;
    }
    if small_cache().info().engine != "uring" {
        return skipped("there is no io_uring");
    }
    let cache = small_cache();
    let dir = scratch::dir();
    let options = OpenOptions::new().create();
    let file = cache.open_with(dir.path().join("file"), &options).unwrap();
    file.append(&[7; 50_000]).unwrap();
    let others = all_descriptors();
    let reads = || {
        file.sync_data().unwrap();
        file.invalidate(0..u64::MAX);
        let (buf, result) = wait::block_on(file.read_at_async(vec![0; 50_000], 0));
        result.unwrap();
        assert!(buf.iter().all(|byte| *byte == 7));
    };
    reads();
    let info = cache.info();
    assert_eq!(info.engine, "worker");
    let reason = info.engine_reason.to_string();
    assert!(reason.contains("open files"), "{reason}");
    drop(others);
    wait::until("io_uring is used", || cache.info().engine == "uring");
    reads();
}

/// A program in a container was killed for a cache that was larger than its memory.
#[test]
fn capacity_is_within_the_limit_of_the_control_group() {
    if !alone("limits::capacity_is_within_the_limit_of_the_control_group") {
        return;
    }
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap();
    let path = |controllers: &str| {
        let mut lines = groups.lines().filter_map(|line| line.split_once(':'));
        lines.find_map(|(_, line)| line.strip_prefix(controllers)?.strip_prefix(":/"))
    };
    let (group, file) = match (path("memory"), path("")) {
        (Some(path), _) => (
            Path::new("/sys/fs/cgroup/memory").join(path),
            "memory.limit_in_bytes",
        ),
        (None, Some(path)) => (Path::new("/sys/fs/cgroup").join(path), "memory.max"),
        (None, None) => return skipped("there are no control groups"),
    };
    let inner = group.join(format!("pagewell-test-{}", std::process::id()));
    let process = std::process::id().to_string();
    let entered = fs::create_dir(&inner)
        .and_then(|()| fs::write(inner.join(file), (64 << 20).to_string()))
        .and_then(|()| fs::write(inner.join("cgroup.procs"), &process));
    let build = |bytes: u64| Cache::builder().capacity(bytes).build();
    let (fits, exceeds) = (build(32 << 20).map(drop), build(65 << 20).map(drop));
    // The group can be removed when it is empty.
    let _ = fs::write(group.join("cgroup.procs"), &process);
    let _ = fs::remove_dir(&inner);
    if let Err(error) = entered {
        return skipped(&format!("no control group can be made: {error}"));
    }
    fits.unwrap();
    let error = exceeds.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(error.to_string().contains("control group"), "{error}");
}
