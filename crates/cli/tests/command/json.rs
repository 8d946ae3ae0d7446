//! The JSON format, which programs read.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use serde_json::Value;

use crate::{SHORT, pagewell, run};

const FIGURE: [&str; 11] = [
    "bench",
    "engine",
    "case",
    "block",
    "file_bytes",
    "threads",
    "unit",
    "value",
    "min",
    "max",
    "rounds",
];
const COMPARISON: [&str; 9] = [
    "bench",
    "ratio",
    "case",
    "block",
    "file_bytes",
    "threads",
    "value",
    "low",
    "high",
];

/// The lines of a run, each a JSON object.
fn records(arguments: &str) -> Vec<(String, Value)> {
    let finished = run(&mut pagewell(&format!("{arguments} {SHORT} --format json"))).succeeded();
    assert!(finished.stderr.is_empty(), "{}", finished.stderr);
    finished
        .stdout
        .lines()
        .map(|line| (line.to_owned(), serde_json::from_str(line).expect(line)))
        .collect()
}

fn text<'a>(record: &'a Value, field: &str) -> &'a str {
    record[field].as_str().unwrap_or_default()
}

fn number(record: &Value, field: &str) -> f64 {
    record[field]
        .as_f64()
        .unwrap_or_else(|| panic!("{field} of {record}"))
}

#[test]
fn lines_have_exactly_the_stable_fields_in_their_order() {
    for (line, record) in records("bench all --quick --size 64K") {
        let fields: &[&str] = if record.get("engine").is_some() {
            &FIGURE
        } else {
            &COMPARISON
        };
        assert_eq!(
            record.as_object().map(|object| object.len()),
            Some(fields.len()),
            "{line}"
        );
        let places: Vec<_> = fields
            .iter()
            .map(|field| line.find(&format!("\"{field}\":")).expect(field))
            .collect();
        assert!(places.is_sorted(), "{line}");
        let (low, high) = if record.get("engine").is_some() {
            assert_eq!(text(&record, "unit"), "ops/s");
            assert_eq!(record["rounds"], 1);
            ("min", "max")
        } else {
            ("low", "high")
        };
        let value = number(&record, "value");
        assert!(value > 0.0 && value.is_finite(), "{line}");
        assert!(
            number(&record, low) <= value && value <= number(&record, high),
            "{line}"
        );
    }
}

#[test]
fn a_quick_run_has_every_engine_ratio_case_block_and_number_of_threads() {
    let mut found = BTreeSet::new();
    for (_, record) in records("bench all --quick --size 64K") {
        let what = match record.get("engine") {
            Some(_) => text(&record, "engine"),
            None => text(&record, "ratio"),
        };
        let row = (
            text(&record, "bench").to_owned(),
            what.to_owned(),
            text(&record, "case").to_owned(),
            number(&record, "block") as u64,
            number(&record, "file_bytes") as u64,
            number(&record, "threads") as u64,
        );
        assert!(found.insert(row.clone()), "twice: {row:?}");
    }
    let mut expected = BTreeSet::new();
    for threads in [1, 2] {
        for case in ["one-count", "own-count", "one-count-processes"] {
            for what in [
                "lock-bit",
                "cas-loop",
                "bare",
                "lock-bit/cas-loop",
                "lock-bit/bare",
            ] {
                expected.insert(("refcount".into(), what.into(), case.into(), 0, 0, threads));
            }
        }
        for case in ["same-hot", "diff-hot", "same-random"] {
            for what in [
                "optimistic",
                "referenced",
                "referenced-cas",
                "pread",
                "mmap",
                "optimistic/referenced",
                "optimistic/referenced-cas",
                "optimistic/pread",
                "optimistic/mmap",
                "referenced/referenced-cas",
            ] {
                for block in [64, 4096] {
                    let row = (
                        "read".into(),
                        what.into(),
                        case.into(),
                        block,
                        65_536,
                        threads,
                    );
                    expected.insert(row);
                }
            }
        }
    }
    assert_eq!(found, expected);
}

#[test]
fn a_full_run_leaves_out_blocks_that_are_larger_than_the_file() {
    let mut blocks = BTreeSet::new();
    for (_, record) in records("bench read --size 4K --case same-random") {
        blocks.insert(number(&record, "block") as u64);
    }
    assert_eq!(Vec::from_iter(blocks), [1, 32, 64, 256, 1024, 4096]);
}

#[test]
fn a_ratio_is_that_of_its_two_figures() {
    let records = records("bench refcount --case own-count --threads 1");
    let speed = |engine: &str| {
        let found = records
            .iter()
            .find(|(_, record)| text(record, "engine") == engine);
        number(&found.expect(engine).1, "value")
    };
    let ratio = records
        .iter()
        .find(|(_, record)| text(record, "ratio") == "lock-bit/cas-loop")
        .map(|(_, record)| number(record, "value"));
    let expected = speed("lock-bit") / speed("cas-loop");
    // One round: there is only one ratio.
    assert!((ratio.unwrap() / expected - 1.0).abs() < 1e-9);
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let mut command = pagewell(&format!("bench refcount {SHORT} --format json"));
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut first)
        .unwrap();
    assert!(first.starts_with('{'));
    // The reader and its end of the pipe are gone.
    let mut stderr = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{stderr}");
    assert!(stderr.is_empty(), "{stderr}");
}

#[test]
fn tables_are_plain_text_without_a_progress_bar_in_a_pipe() {
    let arguments = format!("bench all --quick --size 64K {SHORT}");
    let finished = run(&mut pagewell(&arguments)).succeeded();
    assert!(finished.stderr.is_empty(), "{}", finished.stderr);
    assert!(
        !finished.stdout.contains(['\r', '\u{1b}']),
        "{}",
        finished.stdout
    );
    for word in [
        "lock-bit",
        "cas-loop",
        "bare",
        "optimistic",
        "pread",
        "mmap",
        "same-random",
    ] {
        assert!(finished.stdout.contains(word), "{word}");
    }
    for line in finished.stdout.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}
