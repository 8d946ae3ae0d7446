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
    let db = open(&first);
    db.execute_batch("INSERT INTO t VALUES('to the first')")
        .unwrap();
    let error = try_open(&second, "")
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
    let db = open(&second);
    db.execute_batch("INSERT INTO t VALUES('to the second')")
        .unwrap();
    say("done");
}

#[test]
fn second_database_with_same_inode_number_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let library = dir.path().join("lies.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/identity/lies.c");
    let cc = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"])
        .args([source, "-o"])
        .arg(&library)
        .status();
    let Ok(status) = cc else {
        skipped("there is no C compiler (cc)");
        return;
    };
    assert!(status.success());
    let inodes = ["first", "second"].map(|name| {
        let path = dir.path().join(name);
        let db = open_unix(&path);
        db.execute_batch("CREATE TABLE t(a)").unwrap();
        db.close().unwrap();
        fs::metadata(path).unwrap().ino().to_string()
    });
    let output = command("", dir.path(), "")
        .env("LD_PRELOAD", &library)
        .env("PAGEWELL_TOLD", &inodes[0])
        .env("PAGEWELL_HIDDEN", &inodes[1])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains(">done"),
        "{output:?}"
    );
    for (name, nr) in [("first", 2), ("second", 1)] {
        let db = open_unix(&dir.path().join(name));
        check(&db);
        let sql = format!("SELECT count(*) FROM t WHERE a = 'to the {name}'");
        assert_eq!(value::<i64>(&db, &sql), nr);
        assert_eq!(value::<i64>(&db, "SELECT count(*) FROM t"), nr);
    }
}
