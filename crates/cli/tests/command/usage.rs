//! Bad usage is told apart from failed runs by the exit code 2.

use crate::{pagewell, run};

#[test]
fn bad_usage_exits_with_2_and_says_what_is_wrong() {
    for (arguments, word) in [
        ("--nonsense", "--nonsense"),
        ("walk", "walk"),
        ("bench write --file x", "--file"),
        ("bench cold --file x", "--file"),
        ("bench cold --block 64", "--block"),
        ("bench write --case same-random", "bench read"),
        ("bench read --case writeback", "bench write"),
        ("bench --nonsense", "--nonsense"),
        ("bench read --threads 0", "--threads"),
        ("bench read --threads two", "two"),
        ("bench read --seconds 0", "--seconds"),
        ("bench read --rounds 0", "--rounds"),
        ("bench read --format xml", "xml"),
        ("bench read --page-size 5000", "--page-size"),
        ("bench read --capacity 0", "--capacity"),
        ("bench read --capacity lots", "--capacity"),
        ("bench read --file /", "directory"),
        ("bench refcount --file x", "--file"),
        ("bench read --case one-count", "one-count"),
        ("bench contig --block 4K", "--block"),
        ("bench contig --case order-0-mixed", "bench alloc"),
        ("bench alloc --case order-9", "bench contig"),
        ("bench alloc --case order-5-private", "order-5-private"),
        ("bench alloc --capacity 1G", "--capacity"),
        ("bench alloc --threads 0", "--threads"),
        ("what-if", "TRACE"),
        ("what-if t --pages 0", "--pages"),
        ("what-if t --pages 1 --sizes 5%", "--sizes"),
        ("what-if t --sizes 0%", "--sizes"),
        ("what-if t --sizes 0", "--sizes"),
        ("what-if t --policy best", "s3-fifo"),
        ("what-if t --page-size 5000", "--page-size"),
        ("what-if t --sample 2", "--sample"),
        ("what-if t --sample 0", "--sample"),
        ("what-if t --miss-us -1", "-1"),
        ("what-if t --trace-format pcap", "pcap"),
        ("replay t", "--file"),
        ("replay t --file a --writes b", "--writes"),
        ("replay t --file a --engine aio", "aio"),
        ("replay t --file a --speed 2", "--timing"),
        ("replay t --file a --timing trace --speed 0", "--speed"),
        (
            "replay t --file a --engine pread --capacity 1M",
            "--capacity",
        ),
        ("replay t --file a --page-size 512", "--page-size"),
        ("info --format xml", "xml"),
        ("crash-test power", "power"),
        ("crash-test --kills 0", "--kills"),
        ("crash-test --histories 0", "--histories"),
        ("crash-test --threads 0", "--threads"),
        ("crash-test --seconds 0", "--seconds"),
        ("crash-test --seed lots", "--seed"),
        ("crash-test --break disk", "disk"),
        ("crash-test kill --histories 5", "--histories"),
        ("crash-test kill --break log", "--break log"),
        ("crash-test simulated --kills 5", "--kills"),
        ("crash-test simulated --threads 2", "--threads"),
        ("crash-test simulated --dir /tmp", "--dir"),
    ] {
        let finished = run(&mut pagewell(arguments));
        assert_eq!(finished.code, Some(2), "{arguments}: {finished:?}");
        assert!(finished.stderr.contains(word), "{arguments}: {finished:?}");
        assert!(finished.stdout.is_empty(), "{arguments}: {finished:?}");
    }
}

#[test]
fn help_and_version_are_no_errors() {
    let help = run(&mut pagewell("--help")).succeeded();
    assert!(help.stdout.contains("bench") && help.stdout.contains("info"));
    assert!(!help.stdout.contains("worker"), "{}", help.stdout);
    assert!(
        !help.stdout.contains("crash-test-writer"),
        "{}",
        help.stdout
    );
    let help = run(&mut pagewell("bench --help")).succeeded();
    for flag in ["--threads", "--seconds", "--quick", "--format", "--file"] {
        assert!(help.stdout.contains(flag), "{flag}");
    }
    let version = run(&mut pagewell("--version")).succeeded();
    assert!(version.stdout.contains(env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_run_that_has_nothing_to_measure_says_so() {
    let finished = run(&mut pagewell(
        "bench alloc --case order-0-mixed --threads 1",
    ));
    finished.failed_saying(&["nothing to measure", "two threads"]);
}

#[test]
fn a_worker_that_nobody_started_ends_with_an_error() {
    let finished = run(&mut pagewell("bench-worker --worker 0 --parent 1"));
    assert_eq!(finished.code, Some(1), "{finished:?}");
    let ours = std::process::id();
    let finished = run(&mut pagewell(&format!(
        "bench-worker --worker 0 --parent {ours}"
    )));
    finished.failed_saying(&["standard input"]);
}
