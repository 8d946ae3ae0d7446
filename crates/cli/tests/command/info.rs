//! `pagewell info`.

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
    let copies = &info["copies"];
    let variant = copies["variant"].as_str().unwrap();
    match copies["reason"].as_str().unwrap() {
        "measured" => {
            assert!(copies["nanoseconds"][variant].as_f64() > Some(0.0));
            assert!(copies["nanoseconds"]["sse2"].as_f64() > Some(0.0));
        }
        reason => assert_eq!((variant, reason), ("portable", "only")),
    }
}
