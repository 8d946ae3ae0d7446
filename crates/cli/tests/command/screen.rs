//! `pagewell` without a command.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;

use pagewell_testkit::wait;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{Finished, pagewell, run};

/// Runs it for a moment, without fio.
fn screen(arguments: &str) -> Finished {
    run(pagewell(&format!("--seconds 0.01 {arguments}")).env("PATH", "")).succeeded()
}

#[test]
fn the_bare_command_prints_one_screen() {
    let finished = screen("");
    let lines: Vec<&str> = finished.stdout.lines().collect();
    assert!(lines.len() <= 45, "{finished:?}");
    for line in &lines {
        assert!(line.chars().count() <= 100, "{line}");
        assert!(!line.contains('\u{1b}'), "{line}");
    }
    let mut rest = lines.iter();
    for start in [
        "pagewell ",
        "Linux ",
        "read 64 B, one cached page ",
        "  pread ",
        "  memcpy from mmap ",
        "read 64 B, random in ",
        "  pread ",
        "pin one page, ",
        "  reference count ",
        "write 64 B, random in ",
        "  pwrite ",
        "allocate, split and free 2 MiB ",
        "  page by page ",
        "hit ratio, ",
        "  quick_cache ",
        "Details: cargo run --release -- bench all",
    ] {
        let is_next = rest.any(|line| line.starts_with(start));
        assert!(is_next, "no {start:?} where it belongs in {finished:?}");
    }
    let of_fio: Vec<_> = lines.iter().filter(|line| line.contains("fio")).collect();
    assert_eq!(of_fio.len(), 2, "{finished:?}");
    assert!(of_fio.iter().all(|line| line.ends_with("not measured")));
    assert!(!finished.stdout.contains("left out"), "{finished:?}");
}

#[test]
fn its_figures_are_those_of_its_cells_as_json_lines() {
    let finished = screen("--format json");
    let records = finished.stdout.lines().map(|line| {
        let record: Value = serde_json::from_str(line).expect("a line is an object");
        let text = |field: &str| record[field].as_str().unwrap().to_owned();
        (text("case"), record["threads"].as_u64().unwrap())
    });
    let cells: BTreeSet<(String, u64)> = records.collect();
    let nr_cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let expected = [
        ("same-hot", 1),
        ("same-random", 1),
        ("one-page", nr_cpus.min(2) as u64),
        ("write-random", 1),
        ("commit-threads-64", 64),
        ("random-depth-1", 1),
        ("random-depth-64", 1),
        ("fork", 1),
        ("forks-100", 1),
        ("order-9", 1),
        ("zipf-0.99", 1),
    ];
    let expected = expected.map(|(case, threads)| (case.to_owned(), threads));
    // The share of the second walk is measured with the migration.
    let cells: BTreeSet<_> = cells
        .into_iter()
        .filter(|(case, _)| !case.starts_with("second-walk"))
        .collect();
    assert_eq!(cells, BTreeSet::from(expected));
}

#[test]
fn interrupted_it_shows_what_it_has_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let nr_files = || fs::read_dir(folder.path()).unwrap().count();
    for (format, signal) in [("table", Signal::INT), ("json", Signal::TERM)] {
        let child = pagewell(&format!("--seconds 0.2 --format {format}"))
            .env("PATH", "")
            .env("TMPDIR", folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Only some cells have a file with a name; others follow them.
        wait::until("a file has a name", || nr_files() > 0);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(130), "{told}");
        assert!(told.ends_with("pagewell: interrupted\n"), "{told}");
        let left_out = match format {
            "table" => &shown,
            _ => &told,
        };
        assert!(left_out.contains("left out: "), "{left_out}");
        assert!(left_out.contains("(interrupted)"), "{left_out}");
        assert!(left_out.contains("hit ratio"), "{left_out}");
        assert_eq!(nr_files(), 0, "{format}");
    }
}
