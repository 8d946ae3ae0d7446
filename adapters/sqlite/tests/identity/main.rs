//! Two databases with the same device and inode number.

#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use rusqlite::ffi;

use support::*;

#[test]
#[ignore = "what another process does, which the tests start"]
fn jobs() {
    let Some(path) = std::env::var_os("PAGEWELL_PATH") else {
        return;
    };
    let (first, second) = (
        Path::new(&path).join("first"),
        Path::new(&path).join("second"),
    );
    match std::env::var("PAGEWELL_JOB").as_deref() {
        Ok("open") => open_both(&first, &second),
        Ok("write") => write_after_rename(&first, &second),
        Ok("close") => close_after_rename(&first, &second),
        job => panic!("{job:?}"),
    }
    say("done");
}

fn open_both(first: &Path, second: &Path) {
    let db = open(first);
    db.execute_batch("INSERT INTO t VALUES('to the first')")
        .unwrap();
    let error = try_open(second, "")
        .and_then(|db| db.execute_batch("INSERT INTO t VALUES('to the second')"))
        .unwrap_err();
    assert_eq!(code(&error) & 0xFF, ffi::SQLITE_CANTOPEN);
    let log = take_log();
    assert!(log.contains("identity is ambiguous"), "{log}");
    assert!(log.contains("second"), "{log}");
    db.execute_batch("INSERT INTO t VALUES('to the first')")
        .unwrap();
    db.close().unwrap();
    // The first is closed, so the second can be opened.
    let db = open(second);
    db.execute_batch("INSERT INTO t VALUES('to the second')")
        .unwrap();
}

/// The write must not create a journal: SQLite would roll it back into the second database, which is
/// at the path now.
fn write_after_rename(first: &Path, second: &Path) {
    let db = open(first);
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    fs::rename(second, first).unwrap();
    let error = db
        .execute_batch("INSERT INTO t VALUES('to the first')")
        .unwrap_err();
    assert_eq!(code(&error), ffi::SQLITE_READONLY_DBMOVED);
    assert!(!with_suffix(first, "-journal").exists());
}

/// The log belongs to the database that was renamed over, so the close must not delete it.
fn close_after_rename(first: &Path, second: &Path) {
    let db = open(first);
    set_mode(&db, "wal");
    db.execute_batch("INSERT INTO t VALUES('to the first')")
        .unwrap();
    let log = with_suffix(first, "-wal");
    let before = fs::read(&log).unwrap();
    fs::rename(second, first).unwrap();
    db.close().unwrap();
    assert_eq!(fs::read(&log).unwrap(), before);
}

/// Creates the databases `first` and `second` in `dir`, and returns the command that runs `job` as
/// if they had the same inode number. Returns `None` without a C compiler.
fn command_with_same_numbers(job: &str, dir: &Path) -> Option<Command> {
    let library = dir.join("lies.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/identity/lies.c");
    let cc = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"])
        .args([source, "-o"])
        .arg(&library)
        .status();
    let Ok(status) = cc else {
        skipped("there is no C compiler (cc)");
        return None;
    };
    assert!(status.success());
    let inodes = ["first", "second"].map(|name| {
        let path = dir.join(name);
        let db = open_unix(&path);
        db.execute_batch("CREATE TABLE t(a)").unwrap();
        db.close().unwrap();
        fs::metadata(path).unwrap().ino().to_string()
    });
    let mut command = command(job, dir, "");
    command
        .env("LD_PRELOAD", &library)
        .env("PAGEWELL_TOLD", &inodes[0])
        .env("PAGEWELL_HIDDEN", &inodes[1]);
    Some(command)
}

fn run(mut command: Command) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains(">done"),
        "{output:?}"
    );
}

#[test]
fn second_database_with_same_inode_number_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let Some(command) = command_with_same_numbers("open", dir.path()) else {
        return;
    };
    run(command);
    for (name, nr) in [("first", 2), ("second", 1)] {
        let db = open_unix(&dir.path().join(name));
        check(&db);
        let sql = format!("SELECT count(*) FROM t WHERE a = 'to the {name}'");
        assert_eq!(value::<i64>(&db, &sql), nr);
        assert_eq!(value::<i64>(&db, "SELECT count(*) FROM t"), nr);
    }
}

#[test]
fn moved_database_is_detected_although_another_file_has_its_number() {
    for job in ["write", "close"] {
        let dir = tempfile::tempdir().unwrap();
        if let Some(command) = command_with_same_numbers(job, dir.path()) {
            run(command);
        }
    }
}
