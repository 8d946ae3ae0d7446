//! Other processes: they are kept out, killed in the middle of transactions, and find everything that was committed.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, ffi};

use support::*;

/// Waits until the starter closes this process's standard input.
fn await_end() {
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// Forks this process. Returns whether this is the parent.
fn fork() -> bool {
    // SAFETY: no other thread of the test holds a lock that the child needs.
    match unsafe { libc::fork() } {
        -1 => panic!("{}", std::io::Error::last_os_error()),
        pid => pid != 0,
    }
}

/// Ends this process without the drop of any value.
fn end() -> ! {
    // SAFETY: the call does not return.
    unsafe { libc::_exit(0) }
}

#[test]
#[ignore = "what other processes do, which the tests start"]
fn jobs() {
    let Ok(job) = std::env::var("PAGEWELL_JOB") else {
        return;
    };
    let path = std::env::var_os("PAGEWELL_PATH").unwrap();
    let path = Path::new(&path);
    let detail = std::env::var("PAGEWELL_DETAIL").unwrap();
    let tells = |result: rusqlite::Result<()>| match result {
        Ok(()) => say("done"),
        Err(error) => say(code(&error)),
    };
    match &*job {
        "unix" => {
            let db = open_unix(path);
            // It is five seconds in rusqlite: a database that is kept locked is busy at once.
            db.busy_timeout(Duration::ZERO).unwrap();
            tells(db.execute_batch(&detail));
        }
        "pagewell" => tells(try_open(path, "").and_then(|db| db.execute_batch(&detail))),
        "uri" => {
            load();
            let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
            let uri = format!("file:{}?{detail}", path.display());
            let result = Connection::open_with_flags(uri, flags).and_then(|db| {
                db.busy_timeout(Duration::ZERO)?;
                db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0))
            });
            match result {
                Ok(nr) => say(nr),
                Err(error) => say(format!("error {}", code(&error))),
            }
        }
        "unix and stay" => {
            let db = open_unix(path);
            tells(db.execute_batch(&detail));
            await_end();
        }
        "fork and end" => {
            let db = open(path);
            db.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES(1)")
                .unwrap();
            if fork() {
                // Without the drop of the connection.
                end();
            }
            let error = db.execute_batch("INSERT INTO t VALUES(2)").unwrap_err();
            // These files get the numbers of the closed descriptors.
            let files: Vec<_> = (0..16)
                .map(|_| fs::File::open("/dev/null").unwrap())
                .collect();
            drop(db);
            let are_open = files.iter().all(|file| file.metadata().is_ok());
            say(format!("{} {are_open}", code(&error) & 0xFF));
            await_end();
            end();
        }
        "fork during opens" => {
            // Opens and closes that have ended.
            let nr_steps = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    loop {
                        let db = open(path);
                        nr_steps.fetch_add(1, Ordering::Relaxed);
                        db.execute_batch("CREATE TABLE IF NOT EXISTS t(a)").unwrap();
                        drop(db);
                        nr_steps.fetch_add(1, Ordering::Relaxed);
                    }
                });
                let nr_forks: usize = detail.parse().unwrap();
                for nr in 0..nr_forks {
                    while nr_steps.load(Ordering::Relaxed) <= nr {
                        std::thread::yield_now();
                    }
                    if !fork() {
                        say("child");
                        await_end();
                        end();
                    }
                }
                // At once, while the last child has the descriptors that the other thread uses.
                end();
            });
        }
        "create" => {
            // SAFETY: it changes a number of this process.
            unsafe { libc::umask(detail.parse().unwrap()) };
            let db = try_open(path, &std::env::var("PAGEWELL_PARAMETERS").unwrap()).unwrap();
            set_mode(&db, "persist");
            db.execute_batch("CREATE TABLE IF NOT EXISTS t(a); INSERT INTO t VALUES(1)")
                .unwrap();
        }
        "commit for ever" => commit(path, &detail, u64::MAX),
        _ => unreachable!("{job}"),
    }
}

/// One other process runs a statement: what it says.
fn other(job: &str, path: &Path, sql: &str) -> String {
    let mut child = start(job, path, sql);
    let all: Vec<_> = answers(&mut child).collect();
    child.wait().unwrap();
    all.into_iter().next().unwrap()
}

#[test]
fn other_processes_find_a_database_locked_from_the_first_open_to_the_last_close() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let busy = ffi::SQLITE_BUSY.to_string();
    for mode in ["delete", "wal"] {
        let db = open(&path);
        set_mode(&db, mode);
        db.execute_batch("CREATE TABLE IF NOT EXISTS t(a)").unwrap();
        let second = open(&path);
        for job in ["unix", "pagewell"] {
            assert_eq!(other(job, &path, "SELECT * FROM t"), busy);
            assert_eq!(other(job, &path, "INSERT INTO t VALUES(1)"), busy);
        }
        db.close().unwrap();
        assert_eq!(other("unix", &path, "SELECT * FROM t"), busy);
        second.close().unwrap();
        assert_eq!(other("unix", &path, "INSERT INTO t VALUES(1)"), "done");
        assert_eq!(other("pagewell", &path, "INSERT INTO t VALUES(1)"), "done");

        // Who only reads keeps others out as well.
        let reader = try_open(&path, "&mode=ro").unwrap();
        assert_eq!(other("unix", &path, "SELECT * FROM t"), busy);
        let error = reader.execute_batch("INSERT INTO t VALUES(1)").unwrap_err();
        assert_eq!(code(&error), ffi::SQLITE_READONLY);
        // And one that writes opens it beside.
        let writer = open(&path);
        writer.execute_batch("INSERT INTO t VALUES(1)").unwrap();
        drop(writer);
        assert!(value::<i64>(&reader, "SELECT count(*) FROM t") >= 3);
        drop(reader);
        assert_eq!(other("unix", &path, "SELECT * FROM t"), "done");
        let db = open(&path);
        set_mode(&db, "delete");
    }
}

/// The restrictions that the README lists.
#[test]
fn open_database_excludes_connections_that_lock_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let db = open(&path);
    db.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES(1)")
        .unwrap();
    let busy = format!("error {}", ffi::SQLITE_BUSY);
    for parameters in ["vfs=unix", "vfs=unix-excl", "vfs=pagewell&nolock=1"] {
        assert_eq!(other("uri", &path, parameters), busy, "{parameters}");
    }
    for parameters in [
        "vfs=unix-none",
        "vfs=unix-dotfile",
        "vfs=unix&nolock=1",
        "vfs=unix&immutable=1",
    ] {
        assert_eq!(other("uri", &path, parameters), "1", "{parameters}");
    }
}

#[test]
fn a_database_that_others_use_is_busy_until_they_have_done() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    open(&path).execute_batch("CREATE TABLE t(a)").unwrap();
    for sql in [
        "BEGIN; SELECT * FROM t",
        "BEGIN IMMEDIATE",
        "BEGIN EXCLUSIVE",
    ] {
        let mut child = start("unix and stay", &path, sql);
        let mut said = answers(&mut child);
        assert_eq!(said.next().unwrap(), "done");
        for _ in 0..2 {
            let error = try_open(&path, "").unwrap_err();
            assert_eq!(code(&error), ffi::SQLITE_BUSY);
            assert!(take_log().contains("it is locked elsewhere"));
        }
        drop(child.stdin.take());
        assert_eq!(said.next(), None);
        child.wait().unwrap();
        open(&path)
            .execute_batch("INSERT INTO t VALUES(1)")
            .unwrap();
    }
}

/// As SQLite's VFS for Unix has it: 0644 less the process's mask, or those of another file, and the journal those of the database.
#[test]
fn a_new_database_has_the_permissions_that_sqlites_own_vfs_gives() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model");
    fs::write(&model, "").unwrap();
    fs::set_permissions(&model, fs::Permissions::from_mode(0o660)).unwrap();
    let of_model = format!("&modeof={}", model.display());
    let create = |name: &str, mask: u32, parameters: &str| {
        let path = dir.path().join(name);
        let status = command("create", &path, &mask.to_string())
            .env("PAGEWELL_PARAMETERS", parameters)
            .status();
        assert!(status.unwrap().success());
        [name.to_owned(), format!("{name}-journal")].map(|name| {
            let found = fs::metadata(dir.path().join(name)).unwrap();
            found.permissions().mode() & 0o777
        })
    };
    assert_eq!(create("open to all", 0, ""), [0o644, 0o644]);
    assert_eq!(create("mine", 0o077, ""), [0o600, 0o600]);
    assert_eq!(create("of a group", 0o077, &of_model), [0o660, 0o660]);
    // One that is there keeps its own.
    assert_eq!(create("mine", 0, &of_model), [0o600, 0o600]);

    let error = try_open(&dir.path().join("none"), "&modeof=/nowhere").unwrap_err();
    assert_eq!(code(&error), ffi::SQLITE_IOERR_FSTAT);
}

/// To close a descriptor of a file ends the locks that the process has on it: also those of a connection by SQLite's own VFS in the same process. So
/// an open that fails must not close one.
#[test]
fn a_failed_open_leaves_the_locks_of_sqlites_own_vfs_in_this_process() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    open(&path).execute_batch("CREATE TABLE t(a)").unwrap();
    let unix = open_unix(&path);
    unix.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES(1)")
        .unwrap();
    assert_eq!(code(&try_open(&path, "").unwrap_err()), ffi::SQLITE_BUSY);
    assert_eq!(code(&try_open(&path, "").unwrap_err()), ffi::SQLITE_BUSY);
    let busy = ffi::SQLITE_BUSY.to_string();
    assert_eq!(other("unix", &path, "INSERT INTO t VALUES(2)"), busy);
    unix.execute_batch("COMMIT").unwrap();
    drop(unix);
    let db = open(&path);
    assert_eq!(value::<i64>(&db, "SELECT count(*) FROM t"), 1);
    drop(db);
    assert_eq!(other("unix", &path, "INSERT INTO t VALUES(2)"), "done");
}

/// The process is killed at any moment. What it had said to be committed is there, all of each transaction or nothing, and the database is sound; by either VFS, whoever
/// recovers it. With `synchronous=OFF` too: what SQLite has written in its order the operating system has, as without this VFS.
#[test]
fn a_killed_process_leaves_every_committed_transaction_and_a_sound_database() {
    let mut numbers = Numbers(3);
    let nr_kills = match std::env::var("PAGEWELL_KILLS") {
        Ok(nr) => nr.parse().expect("PAGEWELL_KILLS is a number"),
        Err(_) => 5,
    };
    assert!(
        nr_kills >= 2,
        "PAGEWELL_KILLS is at least 2: the first process is killed before it commits"
    );
    for mode in MODES {
        for synchronous in ["FULL", "NORMAL", "OFF"] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("db");
            let mut promised = 0;
            for kill in 0..nr_kills {
                let mut child = start("commit for ever", &path, &format!("{mode} {synchronous}"));
                let mut said = answers(&mut child);
                // The first process is killed at its start, the others after some commits.
                if kill > 0 {
                    let nr_commits = 2 + numbers.below(4).unsigned_abs() as usize;
                    promised = said.nth(nr_commits).unwrap().parse().unwrap();
                }
                std::thread::sleep(Duration::from_millis(numbers.below(10).unsigned_abs()));
                child.kill().unwrap();
                child.wait().unwrap();
                for round in said {
                    promised = round.parse().unwrap_or(promised);
                }
                let db = match kill % 2 {
                    0 => open_unix(&path),
                    _ => open(&path),
                };
                check(&db);
                let Ok(last) = try_value::<i64>(&db, "SELECT ifnull(max(round), 0) FROM t") else {
                    assert_eq!(promised, 0);
                    continue;
                };
                let what = format!("{mode} {synchronous} {kill}");
                assert!(
                    last >= promised && last <= promised + 1,
                    "{what}: {last}, {promised}"
                );
                let sql = "SELECT count(*) FROM (SELECT round, count(*) AS n FROM t GROUP BY round \
                    HAVING n <> 30)";
                assert_eq!(value::<i64>(&db, sql), 0, "{what}");
                promised = last;
            }
            assert!(promised >= 3 * (nr_kills - 1), "{mode}: {promised}");
        }
    }
}

/// A server that forks and ends, to run in the background, left the database locked by its child.
#[test]
fn child_of_an_ended_process_holds_no_lock() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let mut parent = start("fork and end", &path, "");
    let mut said = answers(&mut parent);
    let expected = format!("{} true", ffi::SQLITE_IOERR);
    assert_eq!(said.next().unwrap(), expected);
    let stdin = parent.stdin.take();
    assert!(parent.wait().unwrap().success());
    // The child lives.
    let db = open(&path);
    check(&db);
    assert_eq!(value::<i64>(&db, "SELECT count(*) FROM t"), 1);
    db.close().unwrap();
    assert_eq!(other("unix", &path, "INSERT INTO t VALUES(3)"), "done");
    drop(stdin);
    assert_eq!(said.next(), None);
}

#[test]
fn children_forked_during_opens_and_closes_hold_no_lock() {
    let dir = tempfile::tempdir().unwrap();
    for nr_forks in 1..=16 {
        let path = dir.path().join(nr_forks.to_string());
        let mut parent = start("fork during opens", &path, &nr_forks.to_string());
        let mut said = answers(&mut parent);
        for _ in 0..nr_forks {
            assert_eq!(said.next().unwrap(), "child");
        }
        let stdin = parent.stdin.take();
        parent.wait().unwrap();
        check(&open(&path));
        assert_eq!(other("unix", &path, "DROP TABLE IF EXISTS t"), "done");
        drop(stdin);
        assert_eq!(said.next(), None);
    }
}
