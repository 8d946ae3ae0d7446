//! The extension, loaded once as a program would, and connections by it.

#![allow(dead_code, unreachable_pub, missing_docs)] // Each test file uses some of it.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::Write;
use std::path::{Path, PathBuf};
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

/// The code of an error.
pub fn code(error: &rusqlite::Error) -> c_int {
    match error {
        rusqlite::Error::SqliteFailure(error, _) => error.extended_code,
        rusqlite::Error::SqlInputError { error, .. } => error.extended_code,
        other => panic!("{other}"),
    }
}
