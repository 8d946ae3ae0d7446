//! The header: it is what cbindgen makes, all of it is called by a test in C, and it can be read.

mod support;

use std::collections::BTreeSet;
use std::process::Command;

use support::*;

fn header() -> String {
    std::fs::read_to_string(here().join("include/pagewell.h")).expect("the header")
}

/// Its functions, with the comment of each.
fn functions(header: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut comment = String::new();
    for line in header.lines() {
        if line.starts_with("/**") {
            comment.clear();
        }
        if line.starts_with("/**") || line.starts_with(" *") {
            comment.push_str(line);
            comment.push('\n');
        } else if let Some(start) = line.find("pw_")
            && !line.starts_with([' ', '#', '}'])
            && !line.starts_with("typedef")
            && let Some(end) = line.find('(')
            && start < end
        {
            // The last word before the parenthesis.
            let name = line[..end].rsplit([' ', '*']).next().unwrap_or_default();
            found.push((name.to_owned(), std::mem::take(&mut comment)));
        }
    }
    found
}

#[test]
fn it_is_what_cbindgen_makes() {
    let config = cbindgen::Config::from_file(here().join("cbindgen.toml")).expect("cbindgen.toml");
    let made = cbindgen::Builder::new()
        .with_crate(here())
        .with_config(config)
        .generate()
        .expect("a header");
    let mut bytes = Vec::new();
    made.write(&mut bytes);
    let made = String::from_utf8(bytes).expect("UTF-8");
    if std::env::var_os("PAGEWELL_BLESS").is_some() {
        std::fs::write(here().join("include/pagewell.h"), &made).expect("the header");
    }
    assert!(
        made == header(),
        "include/pagewell.h is not what cbindgen makes now: PAGEWELL_BLESS=1 cargo test --test \
         header"
    );
}

/// The functions of the header that no source calls.
fn not_called(header: &str, sources: &str) -> Vec<String> {
    let names = functions(header).into_iter().map(|(name, _)| name);
    names
        .filter(|name| !sources.contains(&format!("{name}(")))
        .collect()
}

#[test]
fn each_function_is_called_by_a_test_in_c() {
    let header = header();
    assert!(functions(&header).len() > 60, "{:?}", functions(&header));
    let mut sources = String::new();
    for name in ["calls.c", "bad.c"] {
        sources += &std::fs::read_to_string(test_source(name)).expect("a test");
    }
    assert_eq!(not_called(&header, &sources), Vec::<String>::new());
    // And it would be told.
    let more = header + "int pw_nobody_calls(struct pw_file *file);\n";
    assert_eq!(not_called(&more, &sources), ["pw_nobody_calls"]);
}

/// Rows of the table "Fork": the functions of each row, and the end of the name of their test in C.
/// The last row has all functions that no other row names.
fn rows_of_fork(header: &str) -> Vec<(Vec<String>, String)> {
    let section = header.split("@section fork").nth(1).expect("a section");
    let section = section.split("@section").next().unwrap_or_default();
    let lines = section
        .lines()
        .filter_map(|line| line.strip_prefix(" * | ")?.strip_suffix(" |"));
    let mut rest: Vec<_> = functions(header)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let mut rows = Vec::new();
    for (names, effect) in lines.skip(1).filter_map(|line| line.split_once(" | ")) {
        if names == "all others" {
            rows.push((std::mem::take(&mut rest), "all_others".to_owned()));
            continue;
        }
        let names: Vec<_> = names.split(", ").map(str::to_owned).collect();
        for name in &names {
            let at = rest.iter().position(|other| other == name);
            rest.remove(at.unwrap_or_else(|| panic!("{name} is not declared, or in two rows")));
        }
        rows.push((names, effect.replace(' ', "_")));
    }
    assert!(rest.is_empty(), "{rest:?} are in no row");
    rows
}

/// The functions of the table "Fork" that the test of their row does not call. `refused` is the
/// function in C that calls those of the last row.
fn not_called_in_a_child(header: &str, source: &str, refused: &str) -> Vec<String> {
    let rows = rows_of_fork(header);
    assert_eq!(rows.len(), 4, "{rows:?}");
    let test = |name: &str| {
        let start = source.split(&format!("static void row_{name}(")).nth(1);
        let start = start.unwrap_or_else(|| panic!("there is no row_{name}"));
        start.split("\n}\n").next().unwrap_or_default()
    };
    let called = |row: &str, name: &str| match row {
        "all_others" => {
            test(row).contains("all_others_refuse(PW_ERROR_FORKED, ")
                && refused.contains(&format!("REFUSED(code, {name}("))
        }
        _ => test(row).contains(&format!("{name}(")),
    };
    rows.iter()
        .flat_map(|(names, row)| names.iter().map(move |name| (name, row)))
        .filter(|(name, row)| !called(row, name))
        .map(|(name, _)| name.clone())
        .collect()
}

#[test]
fn each_function_is_called_in_a_child_as_the_table_of_forks_says() {
    let header = header();
    let read = |name| std::fs::read_to_string(test_source(name)).expect("a test");
    let (source, helpers) = (read("forked.c"), read("check.h"));
    let refused = helpers
        .split("static inline void all_others_refuse(")
        .nth(1)
        .expect("the function");
    let not_called = |header: &str| not_called_in_a_child(header, &source, refused);
    assert_eq!(not_called(&header), Vec::<String>::new());
    // A new function is reported, and one that the wrong row names.
    let more = header.clone() + "int pw_not_called(struct pw_file *file);\n";
    assert_eq!(not_called(&more), ["pw_not_called"]);
    let moved = header.replace(", pw_size | hits only", ", pw_dup | hits only");
    assert_eq!(not_called(&moved), ["pw_dup", "pw_size"]);
}

#[test]
fn the_library_exports_what_the_header_declares_and_nothing_else() {
    if !have("nm") {
        return skipped("nm is not installed");
    }
    let output = run(Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(libraries().join("libpagewell.so")));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let exported: BTreeSet<_> = text
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .collect();
    let header = header();
    let declared = functions(&header);
    let declared: BTreeSet<_> = declared.iter().map(|(name, _)| name.as_str()).collect();
    let others: Vec<_> = exported.difference(&declared).collect();
    let missing: Vec<_> = declared.difference(&exported).collect();
    assert!(missing.is_empty(), "{missing:?}");
    // The compiler's own, where there are any.
    assert!(
        others.iter().all(|name| name.starts_with("rust_eh")),
        "{others:?}"
    );
}

#[test]
fn each_function_says_what_it_does_its_errors_and_its_threads() {
    for (name, comment) in functions(&header()) {
        let lines: Vec<_> = comment.lines().collect();
        assert!(lines.len() >= 3, "{name} has no comment");
        assert!(
            comment.contains("* Threads: "),
            "{name} does not say which threads may call it"
        );
        let tells_no_error = [
            "pw_version",
            "pw_strerror",
            "pw_last_error",
            "pw_last_code",
            "pw_last_errno",
        ];
        assert!(
            comment.contains("* Errors: ") || tells_no_error.contains(&name.as_str()),
            "{name} does not say its errors"
        );
    }
}

#[test]
fn doxygen_has_nothing_to_say() {
    if !have("doxygen") {
        return skipped("doxygen is not installed");
    }
    let folder = folder();
    let config = std::fs::read_to_string(here().join("Doxyfile")).expect("the Doxyfile");
    let path = folder.path().join("Doxyfile");
    let config = format!("{config}\nOUTPUT_DIRECTORY = {}\n", folder.path().display());
    std::fs::write(&path, config).expect("a file");
    let output = run(Command::new("doxygen").arg(&path).current_dir(here()));
    let warnings = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(warnings.is_empty(), "{warnings}");
    assert!(folder.path().join("html/pagewell_8h.html").exists());
}
