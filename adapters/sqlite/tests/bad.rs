//! Bad input: databases that are cut, damaged, or none; places where there are none; full disks; URIs with wrong options. SQLite's own codes, and nothing lost.

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use pagewell_testkit::wait::until;
use rusqlite::{Connection, ffi};

use support::*;

/// The log is one for the process: tests that look at it take turns.
static LOG: Mutex<()> = Mutex::new(());

fn make(path: &Path, nr: i64) {
    let db = open_unix(path);
    db.execute_batch(&format!(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {nr})
         INSERT INTO t SELECT i, hex(zeroblob(i % 300)) FROM n;
         CREATE INDEX byBody ON t(body);"
    ))
    .unwrap();
}

/// What queries come to, by results or codes.
fn tried(db: rusqlite::Result<Connection>) -> Vec<Result<String, i32>> {
    let db = match db {
        Ok(db) => db,
        Err(error) => return vec![Err(code(&error))],
    };
    let queries = [
        "SELECT count(*) FROM t",
        "SELECT ifnull(sum(length(body)), 0) FROM t WHERE id % 7 = 0",
        "SELECT count(DISTINCT body) FROM t",
        "SELECT group_concat(integrity_check, char(10)) FROM pragma_integrity_check(5)",
    ];
    let sql = |query: &str| format!("SELECT CAST(({query}) AS TEXT)");
    let ask = |query: &str| try_value(&db, &sql(query)).map_err(|error| code(&error));
    queries.into_iter().map(ask).collect()
}

#[test]
fn cut_and_damaged_databases_give_what_sqlites_own_vfs_gives() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole");
    make(&whole, 3000);
    let bytes = fs::read(&whole).unwrap();
    let path = dir.path().join("db");
    let mut numbers = Numbers(1);
    let mut seen = std::collections::BTreeSet::new();
    let len = bytes.len();
    let cuts = [
        0,
        1,
        15,
        16,
        99,
        100,
        511,
        512,
        4095,
        4096,
        4097,
        8192,
        len / 2,
        len - 4096,
        len - 1,
    ];
    for round in 0..150 {
        let mut bytes = bytes.clone();
        if let Some(&cut) = cuts.get(round) {
            bytes.truncate(cut);
        } else {
            // In the headers of pages, where it hurts, or anywhere.
            let at = match round % 3 {
                0 => numbers.below(len as i64) as usize,
                1 => {
                    numbers.below((len / 4096) as i64) as usize * 4096 + numbers.below(40) as usize
                }
                _ => numbers.below(100) as usize,
            };
            let end = len.min(at + 1 + numbers.below(30) as usize);
            for byte in &mut bytes[at..end] {
                *byte = numbers.below(256) as u8;
            }
        }
        // A database that says that it has a log is opened so by both.
        fs::write(&path, &bytes).unwrap();
        let expected = tried(Ok(open_unix(&path)));
        fs::write(&path, &bytes).unwrap();
        let got = tried(try_open(&path, ""));
        assert_eq!(got, expected, "round {round}");
        seen.extend(
            got.iter()
                .filter_map(|answer| answer.as_ref().err().copied()),
        );
    }
    for code in [ffi::SQLITE_CORRUPT, ffi::SQLITE_NOTADB] {
        assert!(seen.contains(&code), "{seen:?}");
    }
}

#[test]
fn what_is_no_database_or_no_file_is_sqlites_error() {
    let dir = tempfile::tempdir().unwrap();
    let cannot = |path: &Path, parameters: &str| {
        let error = try_open(path, parameters).unwrap_err();
        assert_eq!(code(&error) & 0xFF, ffi::SQLITE_CANTOPEN, "{error}");
    };
    cannot(dir.path(), "");
    cannot(&dir.path().join("nowhere/db"), "");
    cannot(&dir.path().join("missing"), "&mode=rw");
    cannot(&dir.path().join("missing"), "&mode=ro");
    assert!(!dir.path().join("missing").exists());
    let pipe = dir.path().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    cannot(&pipe, "");
    cannot(Path::new("/dev/null"), "");

    let text = dir.path().join("text");
    fs::write(&text, "no database".repeat(1000)).unwrap();
    let db = open(&text);
    let error = try_value::<i64>(&db, "SELECT count(*) FROM t").unwrap_err();
    assert_eq!(code(&error), ffi::SQLITE_NOTADB);

    // By a link it is the same database.
    let (path, link) = (dir.path().join("db"), dir.path().join("link"));
    make(&path, 10);
    symlink(&path, &link).unwrap();
    let (db, linked) = (open(&path), open(&link));
    linked.execute_batch("DELETE FROM t").unwrap();
    assert_eq!(value::<i64>(&db, "SELECT count(*) FROM t"), 0);

    // A database that is removed while it is open says so when it is written.
    fs::remove_file(&path).unwrap();
    let error = db.execute_batch("INSERT INTO t VALUES(1, '')").unwrap_err();
    assert_eq!(code(&error), ffi::SQLITE_READONLY_DBMOVED);
}

#[test]
fn wrong_options_are_refused_with_a_text_and_change_nothing() {
    let _turn = LOG.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    take_log();
    for (parameters, says) in [
        ("&pw_cache=", "a number of bytes"),
        ("&pw_cache=lots", "a number of bytes"),
        ("&pw_cache=99999999999999999999", "a number of bytes"),
        ("&pw_direct=yes", "never, auto or always"),
        ("&pw_page=1024", "4K, 8K, 16K, 32K or 64K"),
        ("&pw_page=3000", "4K, 8K, 16K, 32K or 64K"),
        ("&pw_casche=1M", "unknown option"),
    ] {
        let error = try_open(&path, parameters).unwrap_err();
        assert_eq!(code(&error), ffi::SQLITE_CANTOPEN, "{parameters}");
        let log = take_log();
        assert!(log.contains(says), "{parameters}: {log}");
        assert!(!path.exists(), "{parameters}");
    }
    let db = try_open(&path, "&pw_page=8K").unwrap();
    db.execute_batch("CREATE TABLE t(a)").unwrap();
    for (parameters, says) in [
        ("&pw_page=4K", "already open with pages of 8192 bytes"),
        ("&pw_cache=3M", "the cache of this process has"),
    ] {
        let error = try_open(&path, parameters).unwrap_err();
        assert_eq!(code(&error), ffi::SQLITE_CANTOPEN, "{parameters}");
        let log = take_log();
        assert!(log.contains(says), "{parameters}: {log}");
    }
    // What failed counts as no connection: the first close is the last.
    drop(db);
    open_unix(&path).execute_batch("DROP TABLE t").unwrap();
    // Options of SQLite and of the program are theirs.
    drop(try_open(&path, "&psow=0&pagewell=1&cache=private").unwrap());
}

/// A file system of `bytes`, in memory, as long as it is kept; none where this process may not mount one.
struct Mounted(PathBuf);

impl Mounted {
    fn new(path: &Path, options: &str) -> Option<Self> {
        fs::create_dir_all(path).unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(path)
            .output();
        match mount {
            Ok(output) if output.status.success() => Some(Self(path.to_owned())),
            _ => {
                skipped("no file system can be mounted here");
                None
            }
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_told_and_what_was_committed_stays() {
    let dir = tempfile::tempdir().unwrap();
    for mode in MODES {
        let Some(mounted) = Mounted::new(&dir.path().join(mode), "size=1m") else {
            return;
        };
        let path = mounted.0.join("db");
        let db = open(&path);
        set_mode(&db, mode);
        db.execute_batch("PRAGMA cache_size=20; CREATE TABLE t(id INTEGER PRIMARY KEY, body BLOB)")
            .unwrap();
        let mut nr = 0;
        let error = loop {
            let sql = "INSERT INTO t(body) VALUES(randomblob(3000))";
            match db.execute_batch(&format!("BEGIN; {sql}; {sql}; {sql}; COMMIT")) {
                Ok(()) => nr += 3,
                Err(error) => break error,
            }
        };
        assert_eq!(code(&error), ffi::SQLITE_FULL, "{mode}: {error}");
        assert!(nr > 30, "{mode}: {nr}");
        if !db.is_autocommit() {
            db.execute_batch("ROLLBACK").unwrap();
        }
        let kept = try_value::<i64>(&db, "SELECT count(*) FROM t");
        assert_eq!(kept, Ok(nr), "{mode}: {}", take_log());
        check(&db);
        // One transaction that is too large is undone as a whole.
        let error = db
            .execute_batch(
                "BEGIN; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n \
                WHERE i < 1000) INSERT INTO t SELECT NULL, randomblob(3000) FROM n; COMMIT",
            )
            .unwrap_err();
        assert_eq!(code(&error), ffi::SQLITE_FULL, "{mode}: {error}");
        if !db.is_autocommit() {
            db.execute_batch("ROLLBACK").unwrap();
        }
        assert_eq!(value::<i64>(&db, "SELECT count(*) FROM t"), nr, "{mode}");
        check(&db);
        db.close().unwrap();
        // There is room again; also for the memory of a log, which the other VFS has in a file.
        let remount = Command::new("mount")
            .args(["-o", "remount,size=4m"])
            .arg(&mounted.0)
            .status();
        assert!(remount.unwrap().success());
        let db = open_unix(&path);
        check(&db);
        assert_eq!(value::<i64>(&db, "SELECT count(*) FROM t"), nr, "{mode}");
    }
}

#[test]
fn a_file_system_that_cannot_be_written_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mounted) = Mounted::new(&dir.path().join("ro"), "size=4m") else {
        return;
    };
    let path = mounted.0.join("db");
    make(&path, 1000);
    let remount = Command::new("mount")
        .args(["-o", "remount,ro"])
        .arg(&mounted.0)
        .status();
    assert!(remount.unwrap().success());
    let (db, second) = (open(&path), open(&path));
    check(&db);
    assert_eq!(value::<i64>(&second, "SELECT count(*) FROM t"), 1000);
    let error = db.execute_batch("DELETE FROM t").unwrap_err();
    assert_eq!(code(&error), ffi::SQLITE_READONLY);
    assert_eq!(
        code(&try_open(&mounted.0.join("new"), "").unwrap_err()),
        ffi::SQLITE_CANTOPEN
    );
    drop((db, second));
    // At this close, or at the next one if another test was closing a database.
    until("the descriptors are closed", || {
        drop(open(&dir.path().join("other")));
        nr_descriptors(&mounted.0) == 0
    });
}

/// A file that this process may not write, and others may: the same file system, mounted a second time to be read. Others that write a log do so beside the lock of a reader,
/// so this VFS, whose index of the log nobody else sees, must not read along; SQLite's own VFS cannot either, without the file of that index.
#[test]
fn a_log_that_others_may_write_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let Some((path, read_only)) = two_mounts(dir.path()) else {
        return;
    };
    let writer = open_unix(&path.0.join("db"));
    set_mode(&writer, "wal");
    writer
        .execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES(1)")
        .unwrap();
    let db = open(&read_only.0.join("db"));
    let error = try_value::<i64>(&db, "SELECT count(*) FROM t").unwrap_err();
    assert_eq!(code(&error), ffi::SQLITE_CANTOPEN);
    db.execute_batch("PRAGMA locking_mode=EXCLUSIVE; SELECT count(*) FROM t")
        .unwrap_err();
    // Nobody is in the way of who writes, and who knows that nobody does may say so.
    writer.execute_batch("INSERT INTO t VALUES(2)").unwrap();
    drop(db);
    writer.close().unwrap();
    let db = try_open(&read_only.0.join("db"), "&immutable=1").unwrap();
    assert_eq!(value::<i64>(&db, "SELECT count(*) FROM t"), 2);
}

/// Reading beside others, and going, leaves their locks as they are: those of SQLite's own VFS in this process would end with any descriptor of the file.
#[test]
fn who_only_reads_leaves_the_locks_of_sqlites_own_vfs_in_this_process() {
    let dir = tempfile::tempdir().unwrap();
    let Some((path, read_only)) = two_mounts(dir.path()) else {
        return;
    };
    let path = path.0.join("db");
    make(&path, 100);
    let reader = open_unix(&path);
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM t")
        .unwrap();
    for parameters in ["", "&pw_direct=always", "&pw_page=64K"] {
        if let Ok(db) = try_open(&read_only.0.join("db"), parameters) {
            assert_eq!(value::<i64>(&db, "SELECT count(*) FROM t"), 100);
        }
    }
    // An exclusive lock is to be had only if that of the reader has gone.
    let lock = format!(
        "import fcntl, sys\nfile = open({:?}, 'r+b')\nfcntl.lockf(file, fcntl.LOCK_EX | \
         fcntl.LOCK_NB, 510, 0x40000002)",
        path.to_str().unwrap()
    );
    let try_lock = || Command::new("python3").args(["-c", &lock]).output();
    let Ok(output) = try_lock() else {
        skipped("there is no python3");
        return;
    };
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("BlockingIOError"), "{text}");
    reader.execute_batch("COMMIT").unwrap();
    assert!(try_lock().unwrap().status.success());
    // What was kept for that is closed by the next that comes and goes; then others may write.
    drop(open(&read_only.0.join("db")));
    open(&path).execute_batch("DELETE FROM t").unwrap();
}

/// A file system, and the same mounted to be read.
fn two_mounts(dir: &Path) -> Option<(Mounted, Mounted)> {
    let first = Mounted::new(&dir.join("first"), "size=8m")?;
    let second = dir.join("second");
    fs::create_dir(&second).unwrap();
    let mount = |arguments: &[&str]| {
        let status = Command::new("mount").args(arguments).status();
        status.is_ok_and(|status| status.success())
    };
    let (from, to) = (first.0.to_str().unwrap(), second.to_str().unwrap());
    assert!(mount(&["--bind", from, to]));
    let second = Mounted(second.clone());
    assert!(mount(&["-o", "remount,bind,ro", to]));
    Some((first, second))
}
