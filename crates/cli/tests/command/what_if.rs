//! `pagewell what-if`: the formats for people and programs, the page, bad input, and a program that is traced.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::{Finished, pagewell, run};

/// A file with the trace in it.
fn trace_of(text: &str) -> tempfile::NamedTempFile {
    let file = pagewell_testkit::scratch::file();
    fs::write(file.path(), text).unwrap();
    file
}

fn what_if(trace: &Path, arguments: &str) -> Finished {
    let mut command = pagewell("what-if");
    command.arg(trace).args(arguments.split_whitespace());
    run(&mut command)
}

fn records(finished: &Finished) -> Vec<Value> {
    let lines = finished.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).expect(line))
        .collect()
}

const POLICIES: [&str; 8] = [
    "pagewell",
    "clock",
    "lru",
    "s3-fifo",
    "arc",
    "quick_cache",
    "moka",
    "belady",
];

/// A hundred pages once, and ten of them again and again.
fn hot_and_cold() -> String {
    let cold = (0..100).map(|page| format!("{page} 1 0 0\n"));
    let hot = (0..2000).map(|nr| format!("{} 1 0 0\n", nr % 10));
    cold.chain(hot).collect()
}

#[test]
fn json_lines_have_the_stable_fields_first_and_in_order() {
    let trace = trace_of("0 4 0 0\n0 4 0 1\n9 1 0 2\n");
    let finished = what_if(
        trace.path(),
        "--pages 4,100 --policy lru,belady --format json",
    )
    .succeeded();
    assert_eq!(finished.stderr, "");
    let records = records(&finished);
    assert_eq!(records.len(), 4);
    for (line, record) in finished.stdout.lines().zip(&records) {
        assert!(line.starts_with(r#"{"what_if":"#), "{line}");
        let fields = ["what_if", "policy", "pages", "requests", "hit_ratio"];
        let places = fields.map(|field| line.find(&format!("\"{field}\":")).expect(field));
        assert!(places.is_sorted(), "{line}");
        assert_eq!(record["what_if"], trace.path().display().to_string());
        // A request of several blocks counts as that many.
        assert_eq!(record["requests"], 9);
        assert_eq!(record["sample"], 1.0);
        assert!(record["error"].is_null());
    }
    let lru = &records[0];
    assert_eq!(
        (lru["policy"].as_str(), lru["pages"].as_u64()),
        (Some("lru"), Some(4))
    );
    assert_eq!(lru["hit_ratio"].as_f64(), Some(4.0 / 9.0));
    assert_eq!(lru["misses"], 5);
}

#[test]
fn all_policies_are_there_and_none_beats_the_limit() {
    let trace = trace_of(&hot_and_cold());
    let finished = what_if(trace.path(), "--pages 16,64 --format json").succeeded();
    let records = records(&finished);
    for pages in [16, 64] {
        let of_size = records.iter().filter(|record| record["pages"] == pages);
        let ratios: Vec<(&str, f64)> = of_size
            .map(|record| {
                let policy = record["policy"].as_str().unwrap();
                (policy, record["hit_ratio"].as_f64().unwrap())
            })
            .collect();
        let names: Vec<&str> = ratios.iter().map(|(policy, _)| *policy).collect();
        assert_eq!(names, POLICIES);
        let limit = ratios[7].1;
        assert!(
            ratios.iter().all(|(_, hits)| (0.0..=limit).contains(hits)),
            "{ratios:?}"
        );
        assert!(ratios[0].1 > 0.9, "{ratios:?}");
    }
}

#[test]
fn people_get_a_table_with_bars_and_words() {
    let trace = trace_of(&hot_and_cold());
    for format in ["", "--format text", "--format table"] {
        let finished = what_if(trace.path(), &format!("--miss-us 80 {format}")).succeeded();
        assert_eq!(finished.stderr, "");
        let text = &finished.stdout;
        let words = text.split_whitespace().collect::<Vec<&str>>().join(" ");
        for policy in POLICIES {
            assert!(text.contains(policy), "{policy}: {text}");
        }
        for said in [
            "2100 page requests",
            "of 100 pages of 4 KiB: 400 KiB",
            "reaches 95 % of what is reachable with pagewell",
            "page requests miss with pagewell",
            "at 80 µs a miss",
            "pagewell's hit ratio is",
        ] {
            assert!(words.contains(said), "{said}: {text}");
        }
        assert!(text.contains('█'), "{text}");
        let too_wide = text.lines().find(|line| line.chars().count() > 100);
        assert_eq!(too_wide.filter(|line| !line.contains('/')), None);
    }
}

#[test]
fn the_page_has_every_curve_and_needs_nothing_from_elsewhere() {
    let folder = pagewell_testkit::scratch::dir();
    let trace = folder.path().join("<b>&trace.lis");
    fs::write(&trace, hot_and_cold()).unwrap();
    let page = folder.path().join("page.html");
    let mut command = pagewell("what-if --format json --pages 10,50 --html");
    command.arg(&page).arg(&trace);
    let finished = run(&mut command).succeeded();
    assert_eq!(finished.stdout.lines().count(), 2 * POLICIES.len());
    let page = fs::read_to_string(&page).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>"), "{page}");
    assert_eq!(page.matches("<polyline").count(), POLICIES.len());
    for policy in POLICIES {
        assert!(page.contains(policy), "{policy}");
    }
    assert!(page.contains("what is reachable"), "the words are there");
    // The name of the trace is text.
    assert!(
        page.contains("&lt;b&gt;&amp;trace.lis") && !page.contains("<b>"),
        "{page}"
    );
    for foreign in ["http", "src=", "href=", "url(", "@import", "<script"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    let mut command = pagewell("what-if --policy lru --html /no/such/folder/page.html");
    command.arg(&trace);
    run(&mut command).failed_saying(&["/no/such/folder/page.html", "No such file"]);
}

#[test]
fn a_sample_says_its_error() {
    let text: String = (0..60_000_u64)
        .map(|nr| format!("{}\n", nr * nr * 31 % 20_011))
        .collect();
    let trace = trace_of(&text);
    let exact = what_if(trace.path(), "--sizes 50% --policy lru --format json").succeeded();
    let exact = records(&exact)[0]["hit_ratio"].as_f64().unwrap();
    let arguments = "--sizes 50% --policy lru --sample 0.3";
    let finished = what_if(trace.path(), &format!("{arguments} --format json")).succeeded();
    let record = &records(&finished)[0];
    assert_eq!(record["requests"], 60_000);
    let error = record["error"].as_f64().expect("an error");
    let estimate = record["hit_ratio"].as_f64().unwrap();
    assert!(
        (estimate - exact).abs() < 4.0 * error.max(0.005),
        "{exact} {record}"
    );
    let text = what_if(trace.path(), arguments).succeeded().stdout;
    let words = text.split_whitespace().collect::<Vec<&str>>().join(" ");
    assert!(
        words.contains("Expected error:") && words.contains("standard errors"),
        "{words}"
    );
    // A small trace is simulated whole.
    let finished = what_if(trace.path(), "--policy lru --sample auto --format json").succeeded();
    assert!(
        records(&finished)
            .iter()
            .all(|record| record["sample"] == 1.0)
    );
}

#[test]
fn traces_come_from_pipes_and_compressed_too() {
    let trace = trace_of("1\n2\n1\n");
    let mut command = pagewell("what-if - --pages 2 --policy lru --format json");
    command.stdin(fs::File::open(trace.path()).unwrap());
    let finished = run(&mut command).succeeded();
    assert_eq!(records(&finished)[0]["requests"], 3);
    let gzip = Command::new("gzip").arg("-kf").arg(trace.path()).status();
    if !gzip.is_ok_and(|status| status.success()) {
        pagewell_testkit::skip::skipped("gzip is not installed");
        return;
    }
    let packed = format!("{}.gz", trace.path().display());
    let finished = what_if(Path::new(&packed), "--pages 2 --policy lru").succeeded();
    fs::remove_file(&packed).unwrap();
    assert!(finished.stdout.contains("gzip"), "{}", finished.stdout);
}

#[test]
fn bad_traces_are_failed_runs_that_name_file_and_line() {
    let few = trace_of(&format!("{}nonsense\n", hot_and_cold()));
    let finished = what_if(few.path(), "--pages 10 --policy lru").succeeded();
    for said in ["note: ", "1 of 2101 lines", "line 2101", "nonsense"] {
        assert!(
            finished.stderr.contains(said),
            "{said}: {}",
            finished.stderr
        );
    }
    let name = |trace: &tempfile::NamedTempFile| trace.path().display().to_string();
    let many = trace_of(&format!(
        "{}{}",
        "1 1 0 0\n".repeat(50),
        "1 -1 0 0\n".repeat(50)
    ));
    what_if(many.path(), "").failed_saying(&[&name(&many), "line 51", "negative", "1 -1 0 0"]);
    let huge = trace_of(&"0 1152921504606846976 0 0\n".repeat(20));
    what_if(huge.path(), "--trace-format arc").failed_saying(&["line 1", "blocks"]);
    let empty = trace_of("");
    what_if(empty.path(), "").failed_saying(&[&name(&empty), "empty"]);
    let words = trace_of("this is\nno trace\n");
    what_if(words.path(), "").failed_saying(&[&name(&words), "no trace", "--trace-format"]);
    what_if(words.path(), "--trace-format fio").failed_saying(&["line 1", "iolog"]);
    what_if(Path::new("/"), "").failed_saying(&["directory"]);
    what_if(Path::new("/no/such/trace"), "").failed_saying(&["/no/such/trace", "No such file"]);
}

/// A program that strace follows; None if one of the two is not installed, or may not be traced.
fn strace(output: &Path, calls: &str, program: &[&str]) -> Option<()> {
    let traced = Command::new("strace")
        .args(["-f", "-y", "-e", calls, "-o"])
        .arg(output)
        .args(program)
        .output();
    match traced {
        Ok(done) if done.status.success() => Some(()),
        Ok(done) => {
            let why = String::from_utf8_lossy(&done.stderr).trim().to_owned();
            pagewell_testkit::skip::skipped(&format!("strace {}: {why}", program[0]));
            None
        }
        Err(error) => {
            pagewell_testkit::skip::skipped(&format!("strace: {error}"));
            None
        }
    }
}

const CALLS: &str = "trace=pread64,read,pwrite64,write,lseek,openat";

#[test]
#[ignore = "the output of strace changes by version, and ptrace may be forbidden; .ci/nightly"]
fn a_program_that_is_traced_reads_as_often_as_it_was_told_to() {
    let folder = pagewell_testkit::scratch::dir();
    let trace = folder.path().join("trace");
    let data = folder.path().join("data");
    fs::write(&data, vec![b'x'; 64 << 10]).unwrap();
    let path = data.to_str().unwrap();
    let Some(()) = strace(&trace, CALLS, &["cat", path, path, path]) else {
        return;
    };
    // What the C library reads of itself is in the trace too: only the file is counted.
    let text = fs::read_to_string(&trace).unwrap();
    let of_data: String = text
        .lines()
        .filter(|line| line.contains(path))
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(&trace, of_data).unwrap();
    let finished = what_if(&trace, "--pages 16 --policy lru --format json").succeeded();
    let record = &records(&finished)[0];
    assert_eq!(record["requests"], 3 * 16, "{record}");
    assert_eq!(record["misses"], 16, "{record}");
}

#[test]
#[ignore = "the output of strace changes by version, and ptrace may be forbidden; .ci/nightly"]
fn a_database_that_is_traced_asks_for_its_pages() {
    let folder = pagewell_testkit::scratch::dir();
    let (trace, data) = (folder.path().join("trace"), folder.path().join("t.db"));
    let path = data.to_str().unwrap();
    // Nothing is cached in the process, so that each statement asks for its pages again.
    let script = "pragma cache_size=5; create table t(a integer primary key, b); \
                  with recursive n(i) as (select 1 union all select i+1 from n where i<5000) \
                  insert into t select i, hex(randomblob(100)) from n; \
                  select sum(length(b)) from t; select sum(length(b)) from t where a%7=0;";
    let Some(()) = strace(&trace, CALLS, &["sqlite3", path, script]) else {
        return;
    };
    let pages = fs::metadata(&data).unwrap().len() / 4096;
    let finished = what_if(&trace, "--policy lru,belady --format json").succeeded();
    let records = records(&finished);
    let requests = records[0]["requests"].as_u64().unwrap();
    assert!(requests > 2 * pages, "{requests} requests, {pages} pages");
    let largest = records
        .iter()
        .filter(|record| record["policy"] == "lru")
        .max_by_key(|record| record["pages"].as_u64())
        .unwrap();
    assert!(largest["pages"].as_u64() >= Some(pages), "{largest}");
    assert!(largest["hit_ratio"].as_f64() > Some(0.5), "{largest}");
    let words = what_if(&trace, "--policy lru").succeeded().stdout;
    assert!(
        words.contains("(strace)") && words.contains("writes"),
        "{words}"
    );
}
