//! Counting instructions, as far as it needs neither a build nor valgrind.

use std::fs;
use std::path::Path;

use pagewell_verify::Ended;
use pagewell_verify::instructions::callgrind::Callgrind;
use pagewell_verify::instructions::report::Format;
use pagewell_verify::instructions::{self, Options};

#[test]
fn without_valgrind_it_says_that_it_was_skipped() {
    for (format, start) in [
        (Format::Table, "skipped: no valgrind"),
        (Format::Json, "{\"skipped\":\"no valgrind"),
    ] {
        let options = Options {
            root: "nowhere".into(),
            base: None,
            scratch: "nowhere".into(),
            kinds: Vec::new(),
            count: 1,
            format,
            callgrind: None,
        };
        let mut report = Vec::new();
        assert_eq!(instructions::run(&options, &mut report), Ok(Ended::Well));
        let report = String::from_utf8(report).expect("text");
        assert!(report.starts_with(start), "{report}");
    }
}

#[test]
fn valgrind_is_the_first_on_the_path() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("callgrind");
    fs::create_dir_all(&dir).expect("a folder");
    assert!(Callgrind::find(None).is_none());
    assert!(Callgrind::find(Some(dir.clone().into())).is_none());
    fs::write(dir.join("valgrind"), "").expect("written");
    assert!(Callgrind::find(Some(dir.clone().into())).is_some());
    fs::remove_file(dir.join("valgrind")).expect("removed");
}
