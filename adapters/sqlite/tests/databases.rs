//! What programs do with databases: all journal modes, several databases, backups, many connections.

mod support;

use std::os::fd::AsRawFd as _;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rusqlite::backup::Backup;
use rusqlite::{Connection, ffi, params};

use support::*;

fn fill(db: &Connection, table: &str, nr: i64) {
    db.execute_batch(&format!(
        "CREATE TABLE {table}(id INTEGER PRIMARY KEY, body BLOB);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {nr})
         INSERT INTO {table} SELECT i, randomblob(200) FROM n;"
    ))
    .unwrap();
}

fn sum(db: &Connection, table: &str) -> (i64, String) {
    let sql = format!("SELECT count(*), hex(sum(length(body))) FROM {table}");
    db.query_row(&sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
}

#[test]
fn every_journal_mode_commits_rolls_back_and_leaves_a_database_for_other_programs() {
    let dir = tempfile::tempdir().unwrap();
    for page in [512, 1024, 4096, 65_536] {
        for mode in ["delete", "truncate", "persist", "memory", "wal", "off"] {
            let path = dir.path().join(format!("{mode}{page}"));
            let db = open(&path);
            db.execute_batch(&format!("PRAGMA page_size={page}"))
                .unwrap();
            set_mode(&db, mode);
            fill(&db, "t", 3000);
            let before = sum(&db, "t");
            assert_eq!(before.0, 3000);
            if mode != "off" {
                // More than SQLite's own cache has, so pages are written before the end.
                db.execute_batch(
                    "PRAGMA cache_size=10; BEGIN; UPDATE t SET body = randomblob(300); DELETE FROM \
                     t WHERE id % 2;",
                )
                .unwrap();
                assert_ne!(sum(&db, "t"), before);
                db.execute_batch("ROLLBACK").unwrap();
                assert_eq!(sum(&db, "t"), before, "{mode}");
            }
            let undone = match mode {
                "off" => "",
                _ => "SAVEPOINT b; DROP TABLE t; ROLLBACK TO b;",
            };
            db.execute_batch(&format!(
                "BEGIN; SAVEPOINT a; DELETE FROM t WHERE id > 100; {undone} COMMIT"
            ))
            .unwrap();
            assert_eq!(sum(&db, "t").0, 100);
            check(&db);
            db.close().unwrap();

            let db = open_unix(&path);
            check(&db);
            assert_eq!(sum(&db, "t").0, 100);
            assert_eq!(value::<i64>(&db, "PRAGMA page_size"), page);
        }
    }
}

#[test]
fn pages_are_fetched_where_they_are_and_copied_when_a_user_wants_that() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let db = open(&path);
    fill(&db, "t", 5000);
    drop(db);
    // Of the first 64 KiB there are 15 pages, of which a few are fetched.
    for (size, is_fetched) in [(i64::MAX, true), (0, false), (65_536, false)] {
        let db = open(&path);
        if size != i64::MAX {
            db.execute_batch(&format!("PRAGMA mmap_size={size}"))
                .unwrap();
        }
        assert_eq!(value::<i64>(&db, "PRAGMA mmap_size"), size);
        assert_eq!(sum(&db, "t").0, 5000);
        assert_eq!(statistic(&db, "nr_fetched") > 200, is_fetched, "{size}");
        check(&db);
    }
    // Half of the pages of 8192 bytes of SQLite's are in one page of the cache, if that has 16 KiB; of those of 4096 bytes all are.
    let db = try_open(&dir.path().join("large"), "&pw_page=16K").unwrap();
    db.execute_batch("PRAGMA page_size=8192").unwrap();
    fill(&db, "t", 5000);
    assert_eq!(statistic(&db, "page_size"), 16_384);
    assert_eq!(sum(&db, "t").0, 5000);
    assert!(statistic(&db, "nr_fetched") > 100);
    // And a page of SQLite's that is larger than one of the cache is copied.
    let db = open(&dir.path().join("larger"));
    db.execute_batch("PRAGMA page_size=8192").unwrap();
    fill(&db, "t", 5000);
    assert_eq!(sum(&db, "t").0, 5000);
    assert_eq!(statistic(&db, "nr_fetched"), 0);
    check(&db);
}

#[test]
fn several_databases_are_attached_and_change_together() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    let db = open(&one);
    fill(&db, "t", 100);
    let attach = format!("ATTACH 'file:{}?vfs=pagewell' AS two", two.display());
    db.execute_batch(&attach).unwrap();
    db.execute_batch("CREATE TABLE two.u AS SELECT * FROM t")
        .unwrap();
    let has = statistic(&db, "nr_databases");
    assert!(has >= 2, "{has}");
    // With a super-journal, since both are changed.
    db.execute_batch("BEGIN; DELETE FROM t WHERE id > 50; DELETE FROM two.u WHERE id > 60; COMMIT")
        .unwrap();
    db.execute_batch("BEGIN; DELETE FROM t; DELETE FROM two.u; ROLLBACK")
        .unwrap();
    assert_eq!((sum(&db, "t").0, sum(&db, "two.u").0), (50, 60));
    db.execute_batch("DETACH two").unwrap();
    // One of the two by the other VFS.
    let attach = format!("ATTACH 'file:{}?vfs=unix' AS two", two.display());
    db.execute_batch(&attach).unwrap();
    db.execute_batch("BEGIN; DELETE FROM t WHERE id > 10; DELETE FROM two.u WHERE id > 20; COMMIT")
        .unwrap();
    assert_eq!((sum(&db, "t").0, sum(&db, "two.u").0), (10, 20));
    check(&db);
}

#[test]
fn vacuum_and_backups_keep_everything() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    for journal in MODES {
        let db = open(&path);
        set_mode(&db, journal);
        let mode = &format!("of_{journal}");
        fill(&db, mode, 4000);
        db.execute_batch(&format!("DELETE FROM {mode} WHERE id % 4"))
            .unwrap();
        let before = std::fs::metadata(&path).unwrap().len();
        db.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)")
            .ok();
        check(&db);
        assert_eq!(sum(&db, mode).0, 1000);
        assert!(std::fs::metadata(&path).unwrap().len() < before || journal == "wal");
        let copy = dir.path().join(format!("copy-{mode}"));
        db.execute("VACUUM INTO ?", params![copy.to_str().unwrap()])
            .unwrap();
        let copy = open_unix(&copy);
        check(&copy);
        assert_eq!(sum(&copy, mode).0, 1000);

        let to = dir.path().join(format!("backup-{mode}"));
        let mut other = open(&to);
        let pause = std::time::Duration::ZERO;
        Backup::new(&db, &mut other)
            .unwrap()
            .run_to_completion(7, pause, None)
            .unwrap();
        check(&other);
        assert_eq!(sum(&other, mode).0, 1000);
        // And back into a database that is larger.
        fill(&db, "more", 4000);
        let mut db = db;
        Backup::new(&other, &mut db)
            .unwrap()
            .run_to_completion(i32::MAX, pause, None)
            .unwrap();
        check(&db);
        try_value::<i64>(&db, "SELECT count(*) FROM more").unwrap_err();
        db.execute_batch(&format!("DROP TABLE {mode}")).unwrap();
        set_mode(&db, "delete");
    }
}

#[test]
fn temporary_tables_and_large_sorts_work_beside_a_database() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("db"));
    fill(&db, "t", 20_000);
    db.execute_batch(
        "PRAGMA temp_store=FILE; PRAGMA cache_size=10; PRAGMA temp.cache_size=10;
         CREATE TEMP TABLE u AS SELECT * FROM t ORDER BY body;
         CREATE INDEX byBody ON t(body);",
    )
    .unwrap();
    assert_eq!(value::<i64>(&db, "SELECT count(*) FROM u"), 20_000);
    check(&db);
}

/// Money that goes between accounts: none is lost, whatever the order of 16 connections in 4 threads.
#[test]
fn sixteen_connections_of_four_threads_lose_nothing() {
    for mode in MODES {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let db = open(&path);
        set_mode(&db, mode);
        db.execute_batch("CREATE TABLE account(id INTEGER PRIMARY KEY, has INTEGER, text BLOB)")
            .unwrap();
        for id in 0..200 {
            let row = params![id, 1000];
            db.execute("INSERT INTO account VALUES(?, ?, randomblob(300))", row)
                .unwrap();
        }
        let nr_done = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4_i64 {
                let (path, nr_done) = (&path, &nr_done);
                scope.spawn(move || {
                    let connections: Vec<_> = (0..4).map(|_| open(path)).collect();
                    let mut numbers = Numbers(thread + 1);
                    for round in 0..60 {
                        let db = &connections[round % 4];
                        let (from, to) = (numbers.below(200), numbers.below(200));
                        let all: i64 = value(db, "SELECT sum(has) FROM account");
                        assert_eq!(all, 200_000);
                        db.execute_batch("BEGIN IMMEDIATE").unwrap();
                        for (id, more) in [(from, -7), (to, 7)] {
                            let sql = "UPDATE account SET has = has + ?, text = randomblob(300) \
                                WHERE id = ?";
                            db.execute(sql, params![more, id]).unwrap();
                        }
                        if numbers.below(5) == 0 {
                            db.execute_batch("ROLLBACK").unwrap();
                        } else {
                            db.execute_batch("COMMIT").unwrap();
                            nr_done.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert!(nr_done.into_inner() > 100);
        assert_eq!(value::<i64>(&db, "SELECT sum(has) FROM account"), 200_000);
        check(&db);
    }
}

#[test]
fn locks_between_connections_are_sqlites() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let (a, b) = (open(&path), open(&path));
    for db in [&a, &b] {
        db.busy_timeout(std::time::Duration::ZERO).unwrap();
    }
    fill(&a, "t", 10);
    let is_busy = |result: rusqlite::Result<()>| {
        assert_eq!(code(&result.unwrap_err()), ffi::SQLITE_BUSY);
    };
    a.execute_batch("BEGIN IMMEDIATE; DELETE FROM t WHERE id = 1")
        .unwrap();
    is_busy(b.execute_batch("BEGIN IMMEDIATE"));
    assert_eq!(sum(&b, "t").0, 10, "who reads sees what was there before");
    b.execute_batch("BEGIN; SELECT * FROM t").unwrap();
    is_busy(a.execute_batch("COMMIT"));
    b.execute_batch("COMMIT").unwrap();
    a.execute_batch("COMMIT").unwrap();
    assert_eq!(sum(&b, "t").0, 9);
    a.execute_batch("BEGIN EXCLUSIVE").unwrap();
    is_busy(b.execute_batch("SELECT * FROM t"));
    a.execute_batch("COMMIT").unwrap();

    // With a log readers go on during a commit.
    set_mode(&a, "wal");
    b.execute_batch("BEGIN; SELECT * FROM t").unwrap();
    a.execute_batch("DELETE FROM t WHERE id = 2").unwrap();
    assert_eq!((sum(&a, "t").0, sum(&b, "t").0), (8, 9));
    b.execute_batch("COMMIT").unwrap();
    assert_eq!(sum(&b, "t").0, 8);
}

/// A connection for each request: the last close of one thread meets the open of another.
#[test]
fn connections_that_open_while_others_close_are_not_refused() {
    const THREADS: usize = 4;
    const REQUESTS: usize = 500;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    fill(&open(&path), "t", 10);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..REQUESTS {
                    let db = open(&path);
                    assert_eq!(value::<i64>(&db, "SELECT count(*) FROM t"), 10);
                    db.close().map_err(|(_, error)| error).unwrap();
                }
            });
        }
    });
    // No lock is left.
    assert_eq!(sum(&open_unix(&path), "t").0, 10);
}

/// Threads that create one database: each opens a file that had no identity before.
#[test]
fn threads_that_create_one_database_share_it_and_keep_no_descriptor() {
    const THREADS: usize = 4;
    let dir = tempfile::tempdir().unwrap();
    for round in 0..150 {
        let path = dir.path().join(round.to_string());
        let barrier = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (path, barrier) = (&path, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    let db = open(path);
                    db.execute_batch("CREATE TABLE IF NOT EXISTS t(a)").unwrap();
                    db.execute("INSERT INTO t VALUES(?)", [thread as i64])
                        .unwrap();
                });
            }
        });
        let db = open(&path);
        assert_eq!(value::<i64>(&db, "SELECT count(*) FROM t"), THREADS as i64);
    }
    assert_eq!(nr_descriptors(dir.path()), 0);
}

/// The open of a database whose file another process has leased waits for that process.
#[test]
fn slow_open_delays_no_other_database() {
    let dir = tempfile::tempdir().unwrap();
    let (leased, other) = (dir.path().join("leased"), dir.path().join("other"));
    fill(&open(&leased), "t", 10);
    let mut holder = start("lease", &leased, "");
    let mut said = answers(&mut holder);
    if said.next().unwrap() != "leased" {
        skipped("the file system has no leases");
        return;
    }
    let is_open = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let db = open(&leased);
            is_open.store(true, Ordering::SeqCst);
            assert_eq!(sum(&db, "t").0, 10);
        });
        // The open of the thread above has begun, and waits.
        assert_eq!(said.next().unwrap(), "breaking");
        fill(&open(&other), "t", 10);
        assert!(!is_open.load(Ordering::SeqCst), "the other open has waited");
        drop(holder.stdin.take());
    });
    holder.wait().unwrap();
}

#[test]
#[ignore = "what another process does, which a test starts"]
fn jobs() {
    let Some(path) = std::env::var_os("PAGEWELL_PATH") else {
        return;
    };
    let file = std::fs::File::options().write(true).open(path).unwrap();
    let lease = |command: i32, argument: i32| {
        // SAFETY: the descriptor is open, and the commands access no memory.
        unsafe { libc::fcntl(file.as_raw_fd(), command, argument) }
    };
    // The signal of a broken lease would end the process.
    // SAFETY: no other thread has handlers of this signal.
    unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
    if lease(libc::F_SETLEASE, libc::F_WRLCK) != 0 {
        say("none");
        return;
    }
    say("leased");
    while lease(libc::F_GETLEASE, 0) == libc::F_WRLCK {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    say("breaking");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// The capacity of an open that fails is not that of a database.
#[test]
fn capacity_of_a_failed_open_excludes_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let job = "PAGEWELL_CAPACITY";
    // The cache is one for the process, and so the tests of this file would interfere.
    if std::env::var_os(job).is_none() {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "capacity_of_a_failed_open_excludes_no_other",
                "--nocapture",
            ])
            .env(job, "")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                let missing = dir.path().join("missing");
                let error = try_open(&missing, "&mode=rw&pw_cache=1M").unwrap_err();
                assert_eq!(code(&error), ffi::SQLITE_CANTOPEN);
            }
        });
        for round in 0..300 {
            match try_open(&path, "&pw_cache=2M") {
                Ok(db) => assert_eq!(statistic(&db, "capacity"), 2 << 20),
                Err(error) => {
                    is_done.store(true, Ordering::Relaxed);
                    panic!("{round}: {error}: {}", take_log());
                }
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn directory_cannot_be_opened() {
    let dir = tempfile::tempdir().unwrap();
    let error = try_open(dir.path(), "").unwrap_err();
    assert_eq!(code(&error), ffi::SQLITE_CANTOPEN);
}

/// Another connection has opened the database by a path that is removed.
#[test]
fn connection_writes_while_its_own_path_leads_to_the_database() {
    let dir = tempfile::tempdir().unwrap();
    let (first_path, path) = (dir.path().join("first"), dir.path().join("db"));
    let first = open(&first_path);
    fill(&first, "t", 10);
    std::fs::hard_link(&first_path, &path).unwrap();
    let db = open(&path);
    std::fs::remove_file(&first_path).unwrap();
    db.execute("DELETE FROM t WHERE id = 1", []).unwrap();
    let error = first.execute("DELETE FROM t WHERE id = 2", []).unwrap_err();
    assert_eq!(code(&error), ffi::SQLITE_READONLY_DBMOVED);
    assert_eq!(sum(&db, "t").0, 9);
}

#[test]
fn databases_of_other_vfses_are_not_mapped() {
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("other");
    fill(&open_unix(&other), "t", 10);
    let db = open(&dir.path().join("db"));
    let attach = format!("ATTACH 'file:{}?vfs=unix' AS other", other.display());
    db.execute_batch(&attach).unwrap();
    assert_eq!(value::<i64>(&db, "PRAGMA other.mmap_size"), 0);
    assert_eq!(value::<i64>(&db, "PRAGMA main.mmap_size"), i64::MAX);
    assert_eq!(sum(&db, "other.t").0, 10);
}

/// A file that could not be locked is kept open for SQLite's own VFS, which may have locks on it.
#[test]
fn descriptors_of_files_that_could_not_be_locked_are_closed() {
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (dir.path().join("db"), dir.path().join("other"));
    let unix = open_unix(&path);
    fill(&unix, "t", 10);
    unix.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = try_open(&path, "")
        .and_then(|db| db.execute_batch("SELECT * FROM t"))
        .unwrap_err();
    assert_eq!(code(&error), ffi::SQLITE_BUSY);
    unix.execute_batch("COMMIT").unwrap();
    drop(unix);
    // It still has a name.
    assert!(nr_descriptors(dir.path()) > 0);
    std::fs::remove_file(&path).unwrap();
    drop(open(&other));
    assert_eq!(nr_descriptors(dir.path()), 0);
}

/// Result of `SQLITE_FCNTL_HAS_MOVED`.
fn has_moved(db: &Connection) -> bool {
    let mut moved: std::ffi::c_int = -1;
    // SAFETY: the handle is used while the connection is open.
    let handle = unsafe { db.handle() };
    // SAFETY: the handle is open, and the operation stores one number.
    let code = unsafe {
        ffi::sqlite3_file_control(
            handle,
            c"main".as_ptr(),
            ffi::SQLITE_FCNTL_HAS_MOVED,
            (&raw mut moved).cast(),
        )
    };
    assert_eq!(code, ffi::SQLITE_OK);
    match moved {
        0 => false,
        1 => true,
        other => panic!("{other}"),
    }
}

/// Connections without locks compare device and inode numbers, and those that write, the files.
#[test]
fn moved_databases_are_detected() {
    let dir = tempfile::tempdir().unwrap();
    let (path, original) = (dir.path().join("db"), dir.path().join("original"));
    let db = open(&path);
    fill(&db, "t", 100);
    std::fs::hard_link(&path, &original).unwrap();
    for (begin, end) in [("", ""), ("BEGIN IMMEDIATE", "ROLLBACK")] {
        db.execute_batch(begin).unwrap();
        assert!(!has_moved(&db), "{begin}");
        std::fs::remove_file(&path).unwrap();
        assert!(has_moved(&db), "{begin}");
        std::fs::copy(&original, &path).unwrap();
        assert!(has_moved(&db), "{begin}");
        std::fs::remove_file(&path).unwrap();
        std::fs::hard_link(&original, &path).unwrap();
        assert!(!has_moved(&db), "{begin}");
        db.execute_batch(end).unwrap();
    }
    check(&db);
}

#[test]
fn close_of_a_moved_database_keeps_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let (path, moved) = (dir.path().join("db"), dir.path().join("moved"));
    let db = open(&path);
    set_mode(&db, "wal");
    fill(&db, "t", 100);
    let log = with_suffix(&path, "-wal");
    let before = std::fs::read(&log).unwrap();
    assert!(!before.is_empty());
    std::fs::rename(&path, &moved).unwrap();
    std::fs::copy(&moved, &path).unwrap();
    db.close().unwrap();
    assert_eq!(std::fs::read(&log).unwrap(), before);
    // The log completes the copy.
    let db = open_unix(&path);
    check(&db);
    assert_eq!(sum(&db, "t").0, 100);
}
