//! The JSON format, which programs read.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

use crate::{SHORT, pagewell, run, told};

const FIGURE: [&str; 13] = [
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
    "copy",
    "processor",
];
const COMPARISON: [&str; 11] = [
    "bench",
    "ratio",
    "case",
    "block",
    "file_bytes",
    "threads",
    "value",
    "low",
    "high",
    "copy",
    "processor",
];

/// The case in which the processor time is measured.
const WITH_CPU_TIME: &str = "miss-buffered";

/// Whether the processor time is measured.
fn has_cpu_time(record: &Value) -> bool {
    text(record, "case") == WITH_CPU_TIME || text(record, "bench") == "cold"
}

/// Whether the clock of processor time is finer than the shortest run. Some systems advance it in ticks.
fn has_fine_cpu_clock() -> bool {
    let now = || Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap();
    let begin = now();
    let mut steps = (0..10_000_000).map(|_| now() - begin);
    let step = steps.find(|step| !step.is_zero());
    step.is_some_and(|step| step < Duration::from_micros(100))
}

/// The engines of that case, and what is compared.
const MISS: [&str; 5] = [
    "optimistic",
    "pread",
    "quick_cache",
    "optimistic/pread",
    "optimistic/quick_cache",
];
const CONTIG: [&str; 9] = [
    "chunked",
    "merged",
    "one-by-one",
    "limit",
    "chunked/one-by-one",
    "merged/one-by-one",
    "chunked/limit",
    "merged/limit",
    "chunked/merged",
];
const ALLOC: [&str; 11] = [
    "pagewell",
    "system",
    "buddy-slab",
    "buddy-system",
    "bitmap",
    "frame-alloc",
    "pagewell/system",
    "pagewell/buddy-slab",
    "pagewell/buddy-system",
    "pagewell/bitmap",
    "pagewell/frame-alloc",
];

const WRITE: [&str; 5] = [
    "pagewell",
    "pwrite",
    "mmap",
    "pagewell/pwrite",
    "pagewell/mmap",
];
/// Those that are there without fio come first.
const WRITEBACK: [&str; 6] = [
    "pagewell",
    "pwrite",
    "pagewell/pwrite",
    "fio",
    "pagewell/fio",
    "pwrite/fio",
];

/// What writeback is measured with: fio need not be installed.
fn writeback_engines() -> &'static [&'static str] {
    if has_fio() {
        &WRITEBACK
    } else {
        &WRITEBACK[..3]
    }
}

/// Engines and ratios.
type Names = &'static [&'static str];

/// The cases of `cold`, with block, size of the file, and threads; what is there without fio; and what is there with it.
#[rustfmt::skip]
const COLD: [(&str, u64, u64, u64, Names, Names); 6] = [
    ("random-depth-1", 4096, 4 << 20, 1, &["blocking", "pread", "blocking/pread"],
        &["fio-psync", "blocking/fio-psync"]),
    ("random-depth-32", 4096, 4 << 20, 1, &["read-many"], &["fio-uring", "read-many/fio-uring"]),
    ("random-depth-64", 4096, 4 << 20, 1, &["async", "read-many", "async/read-many"],
        &["fio-uring", "async/fio-uring", "read-many/fio-uring"]),
    ("random-threads-32", 4096, 4 << 20, 32, &["blocking", "pread", "blocking/pread"],
        &["fio-psync", "blocking/fio-psync"]),
    ("sequential", 65_536, 4 << 20, 1, &["blocking", "pread", "blocking/pread"],
        &["fio-uring", "blocking/fio-uring"]),
    ("commit-threads-64", 4096, 64 << 12, 64,
        &["blocking", "one-thread", "fdatasync", "blocking/one-thread", "blocking/fdatasync"], &[]),
];

fn has_fio() -> bool {
    let output = Command::new("fio").arg("--version").output();
    output.is_ok_and(|output| output.status.success())
}

/// The lines of a run, each a JSON object.
fn records(arguments: &str) -> Vec<(String, Value)> {
    pagewell_testkit::scratch::require_room();
    let finished = run(&mut pagewell(&format!("{arguments} {SHORT} --format json"))).succeeded();
    assert_eq!(told(&finished.stderr), Vec::<&str>::new());
    finished
        .stdout
        .lines()
        .map(|line| (line.to_owned(), serde_json::from_str(line).expect(line)))
        .collect()
}

/// The lines of a quick run of every benchmark, which is made once.
fn quick_run() -> &'static [(String, Value)] {
    static LINES: OnceLock<Vec<(String, Value)>> = OnceLock::new();
    LINES.get_or_init(|| records("bench all --quick --size 64K"))
}

fn text<'a>(record: &'a Value, field: &str) -> &'a str {
    record[field].as_str().unwrap_or_default()
}

fn number(record: &Value, field: &str) -> f64 {
    record[field]
        .as_f64()
        .unwrap_or_else(|| panic!("{field} of {record}"))
}

/// Each line names the selected width. An unsupported one is an error.
#[test]
fn lines_name_the_selected_width_of_copies() {
    for width in ["sse2", "avx", "avx512"] {
        let arguments = format!(
            "bench read --case same-hot --block 4K --size 64K {SHORT} --format json --copy \
             {width}"
        );
        let finished = run(&mut pagewell(&arguments));
        if finished.code == Some(0) {
            for line in finished.stdout.lines() {
                let record: Value = serde_json::from_str(line).expect(line);
                assert_eq!(record["copy"], width, "{line}");
            }
        } else {
            assert!(finished.stdout.is_empty(), "{finished:?}");
            finished.failed_saying(&["--copy", width, "cannot"]);
        }
    }
}

#[test]
fn lines_have_exactly_the_stable_fields_in_their_order() {
    let is_clock_fine = has_fine_cpu_clock();
    for (line, record) in quick_run() {
        let (fields, more, after) = if record.get("engine").is_some() {
            (&FIGURE[..], "cpu_ns", "rounds")
        } else {
            (&COMPARISON[..], "cpu_ratio", "high")
        };
        let mut fields = fields.to_vec();
        // In a run this short a clock that advances in ticks, as fio's does, may stand still.
        let may_lack_it = !is_clock_fine || line.contains("fio-");
        if has_cpu_time(record) && !(may_lack_it && record.get(more).is_none()) {
            let at = fields.iter().position(|field| *field == after).unwrap();
            fields.insert(at + 1, more);
            let cpu = number(record, more);
            assert!(cpu > 0.0 && cpu.is_finite(), "{line}");
        }
        if text(record, "case") == "gets-4x" && record.get("engine").is_some() {
            // What the memory of each engine was bounded to, or why it was not.
            let bounds = ["memory_bytes", "memory_unbounded"];
            let bounds = bounds.map(|field| record.get(field).map(|_| field));
            let ([Some(bound), None] | [None, Some(bound)]) = bounds else {
                panic!("{line}");
            };
            let at = fields.iter().position(|field| *field == "rounds").unwrap();
            fields.insert(at + 1, bound);
        }
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
            let unit = match text(record, "case") {
                "fragmentation" => "share",
                "writeback" | "sequential" => "MiB/s",
                case if case.starts_with("second-walk") => "share",
                _ if text(record, "bench") == "migrate" => "pages/s",
                _ => "ops/s",
            };
            assert_eq!(text(record, "unit"), unit);
            assert_eq!(record["rounds"], 1);
            ("min", "max")
        } else {
            ("low", "high")
        };
        let value = number(record, "value");
        assert!(value > 0.0 && value.is_finite(), "{line}");
        assert!(
            number(record, low) <= value && value <= number(record, high),
            "{line}"
        );
    }
}

#[test]
fn a_quick_run_has_every_engine_ratio_case_block_and_number_of_threads() {
    let mut found = BTreeSet::new();
    for (_, record) in quick_run() {
        let what = match record.get("engine") {
            Some(_) => text(record, "engine"),
            None => text(record, "ratio"),
        };
        let row = (
            text(record, "bench").to_owned(),
            what.to_owned(),
            text(record, "case").to_owned(),
            number(record, "block") as u64,
            number(record, "file_bytes") as u64,
            number(record, "threads") as u64,
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
                "assume-one",
                "lock-bit/cas-loop",
                "lock-bit/bare",
                "assume-one/cas-loop",
            ] {
                expected.insert(("refcount".into(), what.into(), case.into(), 0, 0, threads));
            }
        }
        for case in ["one-page", "own-pages"] {
            for what in [
                "announced",
                "counted",
                "counted-cas",
                "announced/counted",
                "announced/counted-cas",
                "owned",
                "owned-counted",
                "owned/owned-counted",
            ] {
                expected.insert(("pin".into(), what.into(), case.into(), 0, 0, threads));
            }
        }
        for case in ["same-hot", "diff-hot", "same-random"] {
            for what in [
                "optimistic",
                "referenced",
                "referenced-cas",
                "pread",
                "mmap",
                "view",
                "optimistic/referenced",
                "optimistic/referenced-cas",
                "optimistic/pread",
                "optimistic/mmap",
                "referenced/referenced-cas",
                "view/optimistic",
                "batch-16",
                "batch-16/optimistic",
                "batch-16/mmap",
                "async",
                "async/optimistic",
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
    for threads in [1, 2] {
        for what in MISS {
            // The smallest file of which a quarter is a cache.
            let case = WITH_CPU_TIME.to_owned();
            let row = ("read".into(), what.into(), case, 4096, 1 << 20, threads);
            expected.insert(row);
        }
    }
    let writes = |case: &str, whats: &[&str], block, threads| {
        let row = |what: &&str| {
            let (what, case) = ((*what).to_owned(), case.to_owned());
            ("write".to_owned(), what, case, block, 65_536, threads)
        };
        whats.iter().map(row).collect::<Vec<_>>()
    };
    for threads in [1, 2] {
        for block in [64, 4096] {
            expected.extend(writes("write-hot", &WRITE, block, threads));
            expected.extend(writes("write-random", &WRITE, block, threads));
        }
        expected.extend(writes("write-commit-64", &WRITE, 64, threads));
        expected.extend(writes("append", &WRITE, 128, threads));
        expected.extend(writes("append-commit-64", &WRITE, 128, threads));
    }
    expected.extend(writes("writeback", writeback_engines(), 65_536, 1));
    let frames = |bench: &str, case: &str, whats: &[&str], block, threads| {
        let row = |what: &&str| {
            let (bench, what, case) = (bench.to_owned(), (*what).to_owned(), case.to_owned());
            (bench, what, case, block, 0, threads)
        };
        whats.iter().map(row).collect::<Vec<_>>()
    };
    for block in [1, 63, 513, 4096] {
        expected.extend(frames("contig", "lengths", &CONTIG, block << 12, 1));
    }
    expected.extend(frames("contig", "fragmentation", &CONTIG[..3], 0, 1));
    for threads in [1, 2] {
        expected.extend(frames("contig", "order-9", &CONTIG, 2 << 20, threads));
        expected.extend(frames("alloc", "order-0-private", &ALLOC, 4096, threads));
        expected.extend(frames("alloc", "order-9-private", &ALLOC, 2 << 20, threads));
    }
    expected.extend(frames("alloc", "order-0-mixed", &ALLOC, 4096, 2));
    expected.extend(frames("alloc", "order-9-mixed", &ALLOC, 2 << 20, 2));
    // The largest of these that the machine's memory has room for.
    let sizes = [256, 64, 16, 1].map(|mib| mib << 20);
    let of_memory = found.iter().find(|row| row.0 == "space").map(|row| row.4);
    let of_memory = of_memory.filter(|bytes| sizes.contains(bytes)).unwrap();
    let of_space = [
        "space-hot",
        "space-random",
        "space-huge-hot",
        "space-huge-random",
        "file-hot",
        "file-random",
        "private-random",
    ];
    for case in of_space {
        for what in ["space", "memcpy", "space/memcpy"] {
            for threads in [1, 2] {
                let case = case.to_owned();
                expected.insert(("space".into(), what.into(), case, 64, of_memory, threads));
            }
        }
    }
    for case in ["fork", "first-write"] {
        expected.extend(frames("fork", case, &FORK, 64 << 20, 1));
    }
    for case in ["forks-100", "mapped-4-forks-100", "mapped-32-forks-100"] {
        expected.extend(frames("migrate", case, &MIGRATE, 1 << 20, 1));
    }
    for threads in [1, 2] {
        for case in ["gets-cached", "gets-4x"] {
            expected.extend(frames("tree", case, &TREE, 128, threads));
        }
        expected.extend(frames("tree", "inserts", &["views"], 128, threads));
    }
    for (case, block, file_bytes, threads, ours, with_fio) in COLD {
        let with_fio = if has_fio() { with_fio } else { &[] };
        for what in ours.iter().chain(with_fio) {
            let (what, case) = ((*what).to_owned(), case.to_owned());
            expected.insert(("cold".into(), what, case, block, file_bytes, threads));
        }
    }
    let shares = &MIGRATE[..3];
    expected.extend(frames(
        "migrate",
        "second-walk-forks-100",
        shares,
        1 << 20,
        1,
    ));
    assert_eq!(found, expected);
}

/// The engines of `fork`, and what is compared.
const FORK: [&str; 8] = [
    "shared-tables",
    "copied-tables",
    "fork(2)",
    "fork(2)-huge",
    "shared-tables/fork(2)",
    "shared-tables/fork(2)-huge",
    "shared-tables/copied-tables",
    "copied-tables/fork(2)",
];

/// The engines of gets from a tree, and what is compared.
const TREE: [&str; 7] = [
    "views",
    "pins",
    "page-reads",
    "mmap",
    "views/pins",
    "views/page-reads",
    "views/mmap",
];

/// The engines of `migrate`, and what is compared.
const MIGRATE: [&str; 9] = [
    "batched",
    "early-stop",
    "full-walk",
    "memcpy",
    "batched/full-walk",
    "batched/early-stop",
    "batched/memcpy",
    "early-stop/full-walk",
    "early-stop/memcpy",
];

#[test]
fn a_full_run_frees_ranges_of_all_lengths() {
    let mut lengths = BTreeSet::new();
    for (_, record) in records("bench contig --case lengths") {
        assert_eq!(number(&record, "threads"), 1.0);
        lengths.insert(number(&record, "block") as u64 / 4096);
    }
    let expected = [
        1, 2, 3, 7, 8, 63, 64, 511, 512, 513, 4095, 4096, 16_384, 65_536,
    ];
    assert_eq!(Vec::from_iter(lengths), expected);
}

#[test]
fn a_full_run_allocates_in_bursts_too() {
    let mut cases = BTreeSet::new();
    for (_, record) in records("bench alloc") {
        cases.insert(text(&record, "case").to_owned());
    }
    let kinds = ["burst", "mixed", "private"];
    let expected = [0, 9].map(|order| kinds.map(|kind| format!("order-{order}-{kind}")));
    assert_eq!(Vec::from_iter(cases), expected.as_flattened());
}

#[test]
fn a_full_run_writes_and_syncs_in_every_way() {
    let mut cases = BTreeSet::new();
    for (_, record) in records("bench write --size 128K --block 64,64K --page-size 16K") {
        cases.insert((
            text(&record, "case").to_owned(),
            number(&record, "block") as u64,
        ));
    }
    let mut expected = BTreeSet::new();
    for block in [64, 64 << 10] {
        for case in [
            "write-hot",
            "write-random",
            "write-beside-waiters",
            "write-commit-1",
            "write-commit-64",
            "append",
            "append-commit-1",
            "append-commit-64",
            "writeback",
        ] {
            expected.insert((case.to_owned(), block));
        }
    }
    assert_eq!(cases, expected);
}

#[test]
fn shares_of_free_memory_are_compared_with_none() {
    for (line, record) in records("bench contig --case fragmentation") {
        assert!(record.get("ratio").is_none(), "{line}");
        assert!(number(&record, "value") <= 1.0, "{line}");
    }
}

#[test]
fn reads_that_miss_are_of_a_file_that_is_large_enough_for_a_cache() {
    let mut found = BTreeSet::new();
    let arguments = "bench read --case miss-buffered --size 4K,1M,2M --block 64,4K,64K";
    for (_, record) in records(arguments) {
        found.insert((
            number(&record, "file_bytes") as u64,
            number(&record, "block") as u64,
        ));
    }
    let sizes = [1 << 20, 2 << 20];
    let expected = sizes.map(|size| [64, 4096, 65_536].map(|block| (size, block)));
    assert_eq!(Vec::from_iter(found), expected.as_flattened());
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
    for (arguments, nr_ratios) in [
        ("bench refcount --case own-count", 3),
        ("bench contig --quick --case order-9", 5),
        ("bench alloc --case order-0-private", 5),
        ("bench write --size 64K --block 64 --case append", 2),
        (
            "bench cold --size 4M --case random-depth-1",
            if has_fio() { 2 } else { 1 },
        ),
    ] {
        let mut records = records(arguments);
        records.retain(|(_, record)| record["threads"] == 1);
        let speed = |engine: &str| {
            let found = records
                .iter()
                .find(|(_, record)| text(record, "engine") == engine);
            number(&found.expect(engine).1, "value")
        };
        let mut nr = 0;
        for (line, record) in &records {
            let Some((faster, slower)) = text(record, "ratio").split_once('/') else {
                continue;
            };
            // One round: there is only one ratio.
            let expected = speed(faster) / speed(slower);
            assert!(
                (number(record, "value") / expected - 1.0).abs() < 1e-9,
                "{line}"
            );
            nr += 1;
        }
        assert_eq!(nr, nr_ratios, "{arguments}");
    }
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
    assert_eq!(told(&stderr), Vec::<&str>::new());
}

#[test]
fn tables_are_plain_text_without_a_progress_bar_in_a_pipe() {
    // A case or two of each benchmark: the others have the same columns.
    let cases = "one-count,one-page,same-random,miss-buffered,append-commit-64,writeback,order-9,\
                 fragmentation,order-9-mixed,space-hot,fork,forks,second-walk,gets-cached,inserts,\
                 commit-threads-64";
    let arguments = format!("bench all --quick --size 64K --dir . {SHORT} --case {cases}");
    let mut command = pagewell(&arguments);
    // The tables name the folder of the files, as it was given: here with one character, wherever it is.
    let folder = pagewell_testkit::scratch::dir();
    let finished = run(command.current_dir(folder.path())).succeeded();
    assert_eq!(told(&finished.stderr), Vec::<&str>::new());
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
        "pwrite",
        "append-commit-64",
        "MiB/s",
        "one-by-one",
        "fragmentation",
        "order-9-mixed",
        "buddy-system",
        "miss-buffered",
        "commit-threads-64",
        "fdatasync",
    ] {
        assert!(finished.stdout.contains(word), "{word}");
    }
    for line in finished.stdout.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}
