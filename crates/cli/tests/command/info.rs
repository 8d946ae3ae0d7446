//! `pagewell info`.

use pagewell_testkit::{Calls, alone, refuse};
use serde_json::Value;

use crate::{pagewell, run};

#[test]
fn the_machine_is_described_in_lines() {
    let finished = run(&mut pagewell("info")).succeeded();
    for word in [
        "kernel",
        "processors",
        "memory",
        "page size",
        "node",
        "io_uring",
        "engine",
        "copies",
    ] {
        assert!(
            finished.stdout.contains(word),
            "{word}: {}",
            finished.stdout
        );
    }
}

#[test]
fn the_machine_is_described_in_one_json_object() {
    let finished = run(&mut pagewell("info --format json")).succeeded();
    assert_eq!(finished.stdout.lines().count(), 1);
    let info: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(info["version"], env!("CARGO_PKG_VERSION"));
    assert!(info["cpus_allowed"].as_u64() >= Some(1));
    assert!(info["page_size"].as_u64() >= Some(4096));
    assert!(info["io_uring"]["available"].is_boolean());
    let engine = info["engine"]["name"].as_str().unwrap();
    assert!(["uring", "worker"].contains(&engine), "{engine}");
    assert!(!info["engine"]["reason"].as_str().unwrap().is_empty());
    assert!(info["nodes"].is_array());
    assert!(info["optional_calls"].as_array().unwrap().len() == 5);
    let width = info["copies"]["variant"].as_str().unwrap();
    assert!(
        ["sse2", "avx", "avx512", "portable"].contains(&width),
        "{width}"
    );
}

/// A sandbox refuses the calls that the library can do without.
#[test]
fn refused_calls_are_named() {
    if !alone("info::refused_calls_are_named") {
        return;
    }
    for (calls, errno) in [
        (Calls::Of(libc::SYS_statx), libc::ENOSYS),
        (Calls::Of(libc::SYS_name_to_handle_at), libc::EPERM),
        (
            Calls::Command(libc::SYS_fcntl, libc::F_OFD_SETLK),
            libc::EINVAL,
        ),
        (Calls::Of(libc::SYS_sync_file_range), libc::ENOSYS),
        (Calls::Of(libc::SYS_membarrier), libc::EPERM),
    ] {
        refuse(calls, errno);
    }
    let lines = run(&mut pagewell("info")).succeeded().stdout;
    let info = run(&mut pagewell("info --format json")).succeeded().stdout;
    let info: Value = serde_json::from_str(&info).unwrap();
    for call in info["optional_calls"].as_array().unwrap() {
        let (name, without) = (
            call["name"].as_str().unwrap(),
            call["without"].as_str().unwrap(),
        );
        assert!(call["error"].is_string(), "{name}");
        let mut lines = lines.lines();
        let line = lines.find(|line| line.starts_with(name)).unwrap();
        assert!(
            line.contains("not available") && line.ends_with(without),
            "{line}"
        );
    }
}
