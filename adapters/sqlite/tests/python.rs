//! The extension in Python's own module, with the SQLite of the system, which is another one than that of the other tests.

mod support;

use std::process::Command;

use support::*;

#[test]
fn pythons_own_module_works_with_the_extension() {
    let has_extensions = |python: &str| {
        let check = "import sqlite3; sqlite3.connect(':memory:').enable_load_extension(True)";
        let run = Command::new(python).args(["-c", check]).output();
        run.is_ok_and(|output| output.status.success())
    };
    // Some are built without extensions.
    let Some(python) = ["python3", "/usr/bin/python3"]
        .into_iter()
        .find(|python| has_extensions(python))
    else {
        skipped("there is no python3 whose sqlite3 loads extensions");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python.py"))
        .arg(extension())
        .arg(dir.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(output.stdout.starts_with(b"done"), "{told}");
}
