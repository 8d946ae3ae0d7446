//! The litmus tests of the project, and the suite on herd7s that are not to be trusted.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use pagewell_verify::herd::{self, Herd};
use pagewell_verify::suite::{self, Missing, Options};
use pagewell_verify::{Ended, Trouble, litmus};

fn litmus_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("litmus")
}

/// An empty folder of this test's own.
fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).expect("a scratch folder");
    dir
}

fn options(herd: Option<Herd>) -> Options {
    let jobs = std::thread::available_parallelism().map_or(1, |n| n.get());
    Options {
        herd,
        names: Vec::new(),
        jobs,
        missing: Missing::Skips,
    }
}

fn run(dir: &Path, options: &Options) -> (Result<Ended, Trouble>, String) {
    let mut report = Vec::new();
    let ended = suite::run(dir, options, &mut report);
    (ended, String::from_utf8(report).expect("text"))
}

/// A folder with one honest pair of tests, and a herd7 that answers `answer` whatever it is asked;
/// `NAME` in the answer becomes the name of the test.
fn pair_and_herd(name: &str, answer: &str) -> (PathBuf, Herd) {
    let dir = scratch(name);
    let text = |name: &str, header: &str, body: &str| {
        format!("C {name}\n(*\n * Model: RC11\n{header}\n *)\n{{ }}\n{body}\nexists (x=1)\n")
    };
    let write = |name: &str, header: &str, body: &str| {
        let file = dir.join(format!("{name}.litmus"));
        fs::write(file, text(name, header, body)).expect("written");
    };
    write("t", " * Result: Never", "P0 ...");
    write(
        "t-broken-it",
        " * Result: Sometimes\n * Broken: it.",
        "P0 ??",
    );
    let program = dir.join("herd7");
    let script = format!(
        "#!/bin/sh\nfor file; do :; done\nname=$(basename \"$file\" .litmus)\n\
         sed \"s/NAME/$name/\" <<'END'\n{answer}\nEND\n"
    );
    fs::write(&program, script).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
    (dir, Herd::new(program, None))
}

#[test]
fn project_tests_are_as_stated() {
    let program = herd::find_herd7(std::env::var_os("HERD7"), std::env::var_os("PATH"));
    let lkmm = herd::find_lkmm(std::env::var_os("LKMM_DIR")).expect("LKMM_DIR is a model");
    let herd = program
        .expect("HERD7 is a program")
        .map(|program| Herd::new(program, lkmm));
    let (ended, report) = run(&litmus_folder(), &options(herd));
    println!("{report}");
    assert_eq!(ended, Ok(Ended::Well), "\n{report}");
}

#[test]
fn readme_lists_every_test() {
    let (tests, problems) = litmus::read_folder(&litmus_folder()).expect("the folder");
    assert_eq!(problems, Vec::<String>::new());
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = fs::read_to_string(readme).expect("the readme");
    let row = |name: &str| {
        let start = format!("| `{name}` |");
        readme.lines().find(|line| line.starts_with(&start))
    };
    for test in &tests {
        let (base, what) = test.twin_of().unwrap_or((&test.name, ""));
        let row = row(base).unwrap_or_else(|| panic!("README.md has no row for `{base}`"));
        let word = if what.is_empty() {
            test.result.to_string()
        } else {
            format!("`{what}`")
        };
        assert!(
            row.contains(&word),
            "the row of `{base}` in README.md lacks {word}"
        );
    }
    for line in readme.lines().filter(|line| line.starts_with("| `")) {
        let name = line.split('`').nth(1).unwrap_or_default();
        let known = tests.iter().any(|t| t.name == name) || !line.contains("| Never |");
        assert!(known, "README.md has a row for `{name}`, which is no test");
    }
}

#[test]
fn mismatch_fails() {
    let (dir, herd) = pair_and_herd("mismatch", "Observation NAME Sometimes 1 1");
    let (ended, report) = run(&dir, &options(Some(herd)));
    assert_eq!(ended, Ok(Ended::Failed));
    assert!(
        report.contains("MISMATCH  RC11 Never     t: herd7 says Sometimes"),
        "{report}"
    );
    assert!(
        report.contains("ok        RC11 Sometimes t-broken-it"),
        "{report}"
    );
    assert!(
        report.contains("1 as stated, 1 not as stated, 0 skipped"),
        "{report}"
    );
}

#[test]
fn missing_answer_fails() {
    let (dir, herd) = pair_and_herd("no-answer", "Warning: unexpected '&' (User error)");
    let (ended, report) = run(&dir, &options(Some(herd)));
    assert_eq!(ended, Ok(Ended::Failed));
    assert!(
        report.contains("ERROR     RC11 Never     t: no answer"),
        "{report}"
    );
}

#[test]
fn missing_herd7_skips_but_keeps_the_rules() {
    let (dir, _) = pair_and_herd("skips", "");
    let (ended, report) = run(&dir, &options(None));
    assert_eq!(ended, Ok(Ended::Well));
    assert!(report.contains("skipped: 2 litmus tests"), "{report}");

    let required = Options {
        missing: Missing::Fails,
        ..options(None)
    };
    assert_eq!(run(&dir, &required).0, Ok(Ended::Failed));

    fs::remove_file(dir.join("t-broken-it.litmus")).expect("removed");
    let (ended, report) = run(&dir, &options(None));
    assert_eq!(ended, Ok(Ended::Failed));
    assert!(
        report.contains("RULE      t: Never, but no twin"),
        "{report}"
    );
}

#[test]
fn missing_model_skips_only_its_tests() {
    let (dir, herd) = pair_and_herd("model", "Observation NAME Sometimes 1 1");
    let text = "C k\n(*\n * Result: Sometimes\n *)\n{ }\nP0 ...\nexists (x=1)\n";
    fs::write(dir.join("k.litmus"), text).expect("written");
    let (_, report) = run(&dir, &options(Some(herd)));
    assert!(
        report.contains("skipped: 1 litmus tests; no kernel memory model"),
        "{report}"
    );
    assert!(
        report.contains("1 as stated, 1 not as stated, 1 skipped"),
        "{report}"
    );
}

#[test]
fn names_select_a_test_and_its_twins() {
    let (dir, herd) = pair_and_herd("names", "Observation NAME Sometimes 1 1");
    let one = Options {
        names: vec!["t-broken-it".into()],
        ..options(Some(herd.clone()))
    };
    let (ended, report) = run(&dir, &one);
    assert_eq!(ended, Ok(Ended::Well));
    assert!(report.contains("1 as stated, 0 not as stated"), "{report}");
    let both = Options {
        names: vec!["t".into()],
        ..options(Some(herd.clone()))
    };
    assert!(run(&dir, &both).1.contains("1 as stated, 1 not as stated"));
    let none = Options {
        names: vec!["u".into()],
        ..options(Some(herd))
    };
    assert!(matches!(run(&dir, &none).0, Err(Trouble::Usage(_))));
}
