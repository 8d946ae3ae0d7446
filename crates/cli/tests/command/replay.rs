//! `pagewell replay`: the engines, the file that stays as it is, and the one that is written.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::{Finished, pagewell, run};

/// A folder with a trace and a file of `pages` pages in it.
fn stage(trace: &str, pages: usize) -> tempfile::TempDir {
    let folder = pagewell_testkit::scratch::dir();
    fs::write(folder.path().join("trace"), trace).unwrap();
    let data: Vec<u8> = (0..pages * 4096)
        .map(|n| (n / 4096 + n % 7) as u8)
        .collect();
    fs::write(folder.path().join("data"), data).unwrap();
    folder
}

fn replay(folder: &Path, flag: &str, arguments: &str) -> Finished {
    let mut command = pagewell("replay");
    command
        .arg(folder.join("trace"))
        .arg(flag)
        .arg(folder.join("data"));
    command.args(arguments.split_whitespace());
    run(&mut command)
}

fn records(finished: &Finished) -> Vec<Value> {
    let lines = finished.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).expect(line))
        .collect()
}

const TRACE: &str = "fio version 3 iolog
0 /a add
10 /a open
20 /a read 0 4096
30 /a read 4096 8192
40 /b read 0 512
2000 /a write 100 1000
3000 /b read 0 4096
4000 /a read 0 100
";

#[test]
fn every_engine_makes_the_same_requests_and_leaves_the_file_as_it_is() {
    let folder = stage(TRACE, 64);
    let before = fs::read(folder.path().join("data")).unwrap();
    let finished = replay(folder.path(), "--file", "--format json").succeeded();
    let records = records(&finished);
    let engines: Vec<&str> = records
        .iter()
        .map(|r| r["engine"].as_str().unwrap())
        .collect();
    // A file system without O_DIRECT is told.
    match finished.stderr.contains("direct is left out") {
        true => assert_eq!(engines, ["pagewell", "pread", "mmap"]),
        false => assert_eq!(engines, ["pagewell", "pread", "direct", "mmap"]),
    }
    for record in &records {
        assert_eq!(
            record["replay"],
            folder.path().join("trace").display().to_string()
        );
        assert_eq!(
            (record["requests"].as_u64(), record["writes"].as_u64()),
            (Some(6), Some(0))
        );
        assert_eq!(record["bytes"], 4096 + 8192 + 512 + 1000 + 4096 + 100);
        assert_eq!(record["wrapped"], 0);
        let ordered = ["p50_ns", "p99_ns", "p999_ns", "max_ns"].map(|name| record[name].as_u64());
        assert!(ordered[0] > Some(0) && ordered.is_sorted(), "{record}");
        assert!(record["requests_per_second"].as_f64() > Some(0.0));
    }
    // Seven pages are asked for, four of them for the first time.
    assert_eq!(records[0]["hit_ratio"].as_f64(), Some(1.0 - 4.0 / 7.0));
    assert!(records[0]["cache_bytes"].as_u64() >= Some(1 << 20));
    assert!(records[1]["hit_ratio"].is_null());
    assert!(
        finished.stderr.contains("1 writes are replayed as reads"),
        "{finished:?}"
    );
    assert!(
        finished.stderr.contains("2 files of the trace"),
        "{finished:?}"
    );
    assert_eq!(fs::read(folder.path().join("data")).unwrap(), before);
}

#[test]
fn writes_change_only_the_file_that_the_flag_names_and_only_where_they_are() {
    for engine in ["pagewell", "pread", "direct", "mmap"] {
        let folder = stage(TRACE, 64);
        let before = fs::read(folder.path().join("data")).unwrap();
        let arguments = format!("--format json --engine {engine}");
        let finished = replay(folder.path(), "--writes", &arguments);
        if finished.code == Some(1) && finished.stderr.contains("no O_DIRECT") {
            pagewell_testkit::skip::skipped("the file system has no O_DIRECT");
            continue;
        }
        let record = &records(&finished.succeeded())[0];
        assert_eq!(record["writes"], 1);
        let after = fs::read(folder.path().join("data")).unwrap();
        assert_eq!(before.len(), after.len());
        let changed = |at: &usize| before[*at] != after[*at];
        let changed: Vec<usize> = (0..before.len()).filter(changed).collect();
        assert!(changed.len() > 900, "{engine}: {}", changed.len());
        assert!(
            changed.iter().all(|at| (100..1100).contains(at)),
            "{engine}"
        );
    }
}

#[test]
fn a_file_whose_end_is_no_page_keeps_its_length() {
    let trace = "fio version 2 iolog\n/a read 0 5000\n/a write 4500 500\n";
    for engine in ["pagewell", "pread", "direct", "mmap"] {
        let folder = stage(trace, 1);
        fs::write(folder.path().join("data"), vec![0; 5000]).unwrap();
        let arguments = format!("--format json --strict --engine {engine}");
        let finished = replay(folder.path(), "--writes", &arguments);
        if finished.code == Some(1) && finished.stderr.contains("no O_DIRECT") {
            continue;
        }
        finished.succeeded();
        let after = fs::read(folder.path().join("data")).unwrap();
        assert_eq!(after.len(), 5000, "{engine}");
        let nr_zeros = after.iter().take_while(|byte| **byte == 0).count();
        assert_eq!(nr_zeros, 4500, "{engine}");
    }
}

#[test]
fn what_is_past_the_end_is_wrapped_or_refused() {
    let folder = stage("1000000 3 0 0\n18446744073709551000 1 0 1\n2 1 0 2\n", 8);
    let finished = replay(
        folder.path(),
        "--file",
        "--format json --engine pagewell,pread",
    )
    .succeeded();
    assert!(
        finished.stderr.contains("2 of 3 requests are past the end"),
        "{finished:?}"
    );
    assert_eq!(records(&finished)[0]["wrapped"], 2);
    assert_eq!(records(&finished)[0]["bytes"], 5 * 4096);
    replay(folder.path(), "--file", "--strict").failed_saying(&[
        "trace: line 1: ",
        "past the end",
        "32 KiB",
    ]);
    // The line, of a trace in which not every line is a request.
    let folder = stage(
        "fio version 2 iolog\n/a add\n/a open\n/a read 0 4096\n/a read 32768 4096\n",
        8,
    );
    replay(folder.path(), "--file", "--strict").failed_saying(&["trace: line 5: ", "past the end"]);
    // Longer than the file.
    let folder = stage("0 100 0 0\n", 8);
    let finished = replay(folder.path(), "--file", "--format json --engine pread").succeeded();
    assert_eq!(records(&finished)[0]["bytes"], 8 * 4096);
}

#[test]
fn the_times_of_the_trace_are_kept_and_their_lack_is_told() {
    let folder = stage(TRACE, 64);
    let arguments = "--timing trace --speed 0.1 --engine pread --format json";
    let record = &records(&replay(folder.path(), "--file", arguments).succeeded())[0];
    // 3.98 ms between the first request and the last, ten times as slow.
    assert!(record["seconds"].as_f64() >= Some(0.0398), "{record}");
    assert_eq!(
        (record["timing"].as_str(), record["speed"].as_f64()),
        (Some("trace"), Some(0.1))
    );
    let folder = stage("1\n2\n3\n", 64);
    replay(folder.path(), "--file", "--timing trace")
        .failed_saying(&["no times", "--timing closed"]);
}

#[test]
fn people_get_a_table() {
    let folder = stage(&"1 2 0 0\n5 1 0 1\n".repeat(50), 64);
    let finished = replay(folder.path(), "--file", "--capacity 1M").succeeded();
    for word in [
        "pagewell",
        "pread",
        "mmap",
        "requests/s",
        "99.9 %",
        "98.0 %",
        "1 MiB",
        "Memory:",
    ] {
        assert!(
            finished.stdout.contains(word),
            "{word}: {}",
            finished.stdout
        );
    }
}

#[test]
fn bad_files_and_traces_are_failed_runs_that_name_them() {
    let folder = stage(TRACE, 1);
    let trace = folder.path().join("trace").display().to_string();
    run(&mut pagewell(&format!(
        "replay {trace} --file /no/such/file"
    )))
    .failed_saying(&["/no/such/file"]);
    run(&mut pagewell(&format!("replay {trace} --file /dev/null")))
        .failed_saying(&["regular file"]);
    run(&mut pagewell(&format!("replay {trace} --file /"))).failed_saying(&["regular file"]);
    fs::write(folder.path().join("data"), "").unwrap();
    replay(folder.path(), "--file", "").failed_saying(&["data", "empty"]);
    fs::write(folder.path().join("data"), "x").unwrap();
    fs::write(folder.path().join("trace"), "").unwrap();
    replay(folder.path(), "--file", "").failed_saying(&["trace", "empty"]);
}
