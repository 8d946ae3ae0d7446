//! The extension, loaded once as a program would, and connections by it.

#![allow(dead_code, unreachable_pub, missing_docs)] // Each test file uses some of it.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, Once};

use rusqlite::{Connection, OpenFlags, ffi};

/// The lines of SQLite's log.
static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

unsafe extern "C" fn log(_: *mut c_void, _code: c_int, text: *const c_char) {
    // SAFETY: SQLite gives a text that ends with a zero.
    let text = unsafe { CStr::from_ptr(text) };
    LOG.lock().unwrap().push(text.to_string_lossy().into());
}

/// What SQLite has logged since this was called last.
pub fn take_log() -> String {
    LOG.lock().unwrap().drain(..).collect::<Vec<_>>().join("\n")
}

/// The extension's file, which cargo has built for this test.
pub fn extension() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    // `cargo test` leaves it beside the test; only `cargo build` puts it one folder up.
    test.with_file_name("libpagewell_sqlite.so")
}

/// Loads the extension into this process.
pub fn load() {
    static LOADED: Once = Once::new();
    LOADED.call_once(|| {
        type Log = unsafe extern "C" fn(*mut c_void, c_int, *const c_char);
        // SAFETY: SQLite is not in use yet; the option takes a function of this type, and an argument for it.
        let code = unsafe {
            ffi::sqlite3_config(
                ffi::SQLITE_CONFIG_LOG,
                log as Log,
                std::ptr::null_mut::<c_void>(),
            )
        };
        assert_eq!(code, ffi::SQLITE_OK);
        let db = Connection::open_in_memory().unwrap();
        // SAFETY: the extension is this crate's own.
        unsafe { db.load_extension_enable() }.unwrap();
        // SAFETY: as above.
        unsafe { db.load_extension(extension(), None::<&str>) }.unwrap();
    });
}

/// Opens a database by the VFS, with these parameters in the URI.
pub fn try_open(path: &Path, parameters: &str) -> rusqlite::Result<Connection> {
    load();
    let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
    let uri = format!("file:{}?vfs=pagewell{parameters}", path.display());
    let db = Connection::open_with_flags(uri, flags)?;
    db.busy_timeout(std::time::Duration::from_secs(60))?;
    Ok(db)
}

pub fn open(path: &Path) -> Connection {
    try_open(path, "").unwrap()
}

/// Opens a database by SQLite's own VFS.
pub fn open_unix(path: &Path) -> Connection {
    load();
    let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(format!("file:{}?vfs=unix", path.display()), flags).unwrap()
}

/// The journal modes that survive a crash.
pub const MODES: [&str; 4] = ["delete", "truncate", "persist", "wal"];

pub fn set_mode(db: &Connection, mode: &str) {
    let now: String = db
        .query_row(&format!("PRAGMA journal_mode={mode}"), [], |row| row.get(0))
        .unwrap();
    assert_eq!(now, mode);
}

/// The one value of a query.
pub fn value<T: rusqlite::types::FromSql>(db: &Connection, sql: &str) -> T {
    try_value(db, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

pub fn try_value<T: rusqlite::types::FromSql>(db: &Connection, sql: &str) -> rusqlite::Result<T> {
    db.query_row(sql, [], |row| row.get(0))
}

/// Path of the journal or log of the database at `path`.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

pub fn check(db: &Connection) {
    assert_eq!(value::<String>(db, "PRAGMA integrity_check"), "ok");
}

/// A number of `PRAGMA pagewell_stats`.
pub fn statistic(db: &Connection, name: &str) -> i64 {
    let all: String = value(db, "PRAGMA pagewell_stats");
    let sql = format!("SELECT json_extract('{all}', '$.{name}')");
    value(db, &sql)
}

/// Numbers that look random, the same each time.
pub struct Numbers(pub i64);

impl Numbers {
    pub fn below(&mut self, end: i64) -> i64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33).rem_euclid(end)
    }
}

/// Says that a part of a test was not run, and why.
pub fn skipped(why: &str) {
    // If nobody reads it, that is no reason to fail.
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// Number of descriptors that this process has of files in `dir`.
pub fn nr_descriptors(dir: &Path) -> usize {
    let links = std::fs::read_dir("/proc/self/fd").unwrap();
    let links = links.filter_map(|link| std::fs::read_link(link.unwrap().path()).ok());
    links.filter(|link| link.starts_with(dir)).count()
}

/// The code of an error.
pub fn code(error: &rusqlite::Error) -> c_int {
    match error {
        rusqlite::Error::SqliteFailure(error, _) => error.extended_code,
        rusqlite::Error::SqlInputError { error, .. } => error.extended_code,
        other => panic!("{other}"),
    }
}

/// This test program again, to run one of its `jobs`.
pub fn command(job: &str, path: &Path, detail: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "jobs", "--ignored", "--nocapture"])
        .env("PAGEWELL_JOB", job)
        .env("PAGEWELL_PATH", path)
        .env("PAGEWELL_DETAIL", detail)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// Starts it.
pub fn start(job: &str, path: &Path, detail: &str) -> Child {
    command(job, path, detail).spawn().unwrap()
}

/// What a job says: the lines that begin with `>`.
pub fn answers(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.filter_map(|line| Some(line.ok()?.strip_prefix('>')?.to_owned()))
}

pub fn say(text: impl std::fmt::Display) {
    println!("\n>{text}");
    std::io::stdout().flush().unwrap();
}

/// So many transactions that change many pages, some more than SQLite's cache has; after each the number of it is said. `detail` is a journal mode, what
/// `PRAGMA synchronous` is to be, and parameters of the URI.
pub fn commit(path: &Path, detail: &str, nr: u64) {
    let mut words = detail.split(' ');
    let mut word = || words.next().unwrap_or_default();
    let (mode, synchronous, parameters) = (word(), word(), word());
    let db = try_open(path, &format!("&pw_cache=1M{parameters}")).unwrap();
    set_mode(&db, mode);
    db.execute_batch(&format!(
        "PRAGMA synchronous={synchronous}; PRAGMA cache_size=20; PRAGMA wal_autocheckpoint=50;
         CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, round INTEGER, body BLOB);
         CREATE INDEX IF NOT EXISTS byBody ON t(body);"
    ))
    .unwrap();
    let mut round: i64 = value(&db, "SELECT ifnull(max(round), 0) FROM t");
    for _ in 0..nr {
        round += 1;
        db.execute_batch("BEGIN").unwrap();
        for _ in 0..30 {
            db.execute("INSERT INTO t VALUES(NULL, ?, randomblob(400))", [round])
                .unwrap();
        }
        db.execute_batch(&format!(
            "UPDATE t SET body = randomblob(400) WHERE id % 10 = {round} % 10
             AND id > (SELECT max(id) FROM t) - 1000;
             DELETE FROM t WHERE round < {round} - 60;"
        ))
        .unwrap();
        db.execute_batch("COMMIT").unwrap();
        say(round);
    }
}
