//! Losses of power: what a program writes is recorded, and at many moments the power goes.
//!
//! A program commits transactions. `recorder.c` is loaded before it and writes down what it does to the database, its journal and its log: by Pagewell, and by SQLite's
//! own VFS. Here the power goes at any record. What was synced by then is on the disk. Of what was not, each write is there, or is not, or some of its sectors of 512 bytes
//! are, or there is garbage where the file has grown; of files that were made and removed, the first few are. Then the database is opened: it must be sound, each
//! transaction must be there as a whole or not at all, and those that were promised must be there.

#[path = "../support/mod.rs"]
mod support;

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::*;

const SECTOR: usize = 512;

#[test]
#[ignore = "what another process does, which the tests start"]
fn jobs() {
    let Some(path) = std::env::var_os("PAGEWELL_PATH") else {
        return;
    };
    commit(
        Path::new(&path),
        &std::env::var("PAGEWELL_DETAIL").unwrap(),
        NR_ROUNDS,
    );
    // Nothing is closed.
    std::process::exit(0);
}

const NR_ROUNDS: u64 = 25;

/// What was done, in the order in which it was. A file is its inode, or, if it was made meanwhile, a number above [`MADE`]: inodes are used again.
enum Event {
    Write(u64, usize, Vec<u8>),
    Truncate(u64, usize),
    SyncBegins(u64),
    SyncEnds(u64),
    Create(u64, String),
    Unlink(String),
    /// A transaction is promised.
    Promise(i64),
}

const MADE: u64 = 1 << 60;

/// A database before, and what was done to it.
struct Recording {
    folder: u64,
    names: HashMap<String, u64>,
    files: HashMap<u64, Vec<u8>>,
    events: Vec<Event>,
}

/// The library that records, compiled; none where there is no compiler.
fn recorder(dir: &Path) -> Option<PathBuf> {
    let library = dir.join("recorder.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/power/recorder.c");
    let cc = Command::new("cc")
        .args([
            "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", source, "-ldl", "-o",
        ])
        .arg(&library)
        .status();
    if cc.is_err() {
        skipped("there is no C compiler (cc)");
        return None;
    }
    assert!(cc.unwrap().success());
    Some(library)
}

/// Runs the program, and takes down what it does.
fn record(detail: &str, page: i64, lies: bool) -> Option<Recording> {
    let dir = tempfile::tempdir().unwrap();
    let library = recorder(dir.path())?;
    let folder = dir.path().canonicalize().unwrap().join("folder");
    fs::create_dir(&folder).unwrap();
    let path = folder.join("db");
    let db = open_unix(&path);
    let mode = detail.split(' ').next().unwrap();
    db.execute_batch(&format!("PRAGMA page_size={page}"))
        .unwrap();
    set_mode(&db, mode);
    db.execute_batch("CREATE TABLE before(a); INSERT INTO before VALUES('here')")
        .unwrap();
    db.close().unwrap();
    let mut names = HashMap::new();
    let mut files = HashMap::new();
    for entry in fs::read_dir(&folder).unwrap() {
        let entry = entry.unwrap();
        let inode = entry.metadata().unwrap().ino();
        names.insert(entry.file_name().into_string().unwrap(), inode);
        files.insert(inode, fs::read(entry.path()).unwrap());
    }
    let to = dir.path().join("record");
    let mut command = command("commit", &path, detail);
    command
        .env("LD_PRELOAD", &library)
        .env("PAGEWELL_RECORD", &to)
        .env("PAGEWELL_FOLDER", &folder);
    if lies {
        command.env("PAGEWELL_LIES", "1");
    }
    assert!(command.output().unwrap().status.success());
    Some(Recording {
        folder: fs::metadata(&folder).unwrap().ino(),
        names,
        files,
        events: events(&fs::read(&to).unwrap()),
    })
}

fn events(mut record: &[u8]) -> Vec<Event> {
    let mut events = Vec::new();
    let mut made = HashMap::new();
    while !record.is_empty() {
        let (head, rest) = record.split_at(40);
        let number = |nr: usize| u64::from_ne_bytes(head[nr * 8..nr * 8 + 8].try_into().unwrap());
        let (kind, mut file, pos) = (number(0), number(1), number(2) as usize);
        if kind == 5 {
            made.insert(file, MADE + events.len() as u64);
        }
        file = *made.get(&file).unwrap_or(&file);
        let (bytes, rest) = rest.split_at(number(3) as usize);
        record = rest;
        let name = || String::from_utf8(bytes.to_vec()).unwrap();
        events.push(match kind {
            1 => Event::Write(file, pos, bytes.to_vec()),
            2 => Event::Truncate(file, pos),
            3 => Event::SyncBegins(file),
            4 => Event::SyncEnds(file),
            5 => Event::Create(file, name()),
            6 => Event::Unlink(name()),
            7 => match name().trim().strip_prefix('>') {
                Some(round) => Event::Promise(round.parse().unwrap()),
                None => continue,
            },
            _ => unreachable!("kind {kind}"),
        });
    }
    events
}

impl Recording {
    /// Makes the folder as a disk may have it if the power goes just before `events[at]`. Returns the transaction that was promised last.
    fn lose_power(&self, at: usize, to: &Path, numbers: &mut Numbers) -> i64 {
        // Of each file, how many events are durable.
        let mut begun = HashMap::new();
        let mut durable = HashMap::new();
        let mut promised = 0;
        for (nr, event) in self.events[..at].iter().enumerate() {
            match event {
                Event::SyncBegins(file) => drop(begun.insert(*file, nr)),
                Event::SyncEnds(file) => {
                    durable.insert(*file, begun[file]);
                }
                Event::Promise(round) => promised = *round,
                _ => {}
            }
        }
        let is_durable = |file: &u64, nr: usize| durable.get(file).is_some_and(|end| nr < *end);
        let (mut names, mut files) = (self.names.clone(), self.files.clone());
        let mut has_folder_ended = false;
        for (nr, event) in self.events[..at].iter().enumerate() {
            match event {
                Event::Write(file, pos, bytes) => {
                    let has = files.entry(*file).or_default();
                    if is_durable(file, nr) {
                        put(has, *pos, bytes);
                    } else {
                        put_some(has, *pos, bytes, numbers);
                    }
                }
                Event::Truncate(file, size) if is_durable(file, nr) || numbers.below(2) == 0 => {
                    files.entry(*file).or_default().resize(*size, 0);
                }
                Event::Create(..) | Event::Unlink(_) => {
                    has_folder_ended |= !is_durable(&self.folder, nr) && numbers.below(3) == 0;
                    if has_folder_ended {
                        continue;
                    }
                    match event {
                        Event::Create(file, name) => drop(names.insert(name.clone(), *file)),
                        Event::Unlink(name) => drop(names.remove(name)),
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        for (name, file) in names {
            let bytes = files.get(&file).map_or(&[][..], |bytes| bytes);
            fs::write(to.join(name), bytes).unwrap();
        }
        promised
    }
}

fn put(file: &mut Vec<u8>, pos: usize, bytes: &[u8]) {
    let end = pos + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[pos..end].copy_from_slice(bytes);
}

/// A write that was not synced: there, or not, or in part.
fn put_some(file: &mut Vec<u8>, pos: usize, bytes: &[u8], numbers: &mut Numbers) {
    match numbers.below(4) {
        0 => {}
        1 => put(file, pos, bytes),
        how => {
            let mut off = 0;
            while off < bytes.len() {
                let end = bytes.len().min(off + SECTOR - (pos + off) % SECTOR);
                let is_new = pos + end > file.len();
                if numbers.below(2) == 0 {
                    put(file, pos + off, &bytes[off..end]);
                } else if how == 2 && is_new {
                    // The file has its size, and not yet its bytes.
                    let garbage: Vec<u8> = (off..end).map(|_| numbers.below(256) as u8).collect();
                    put(file, pos + off, &garbage);
                }
                off = end;
            }
        }
    }
}

/// What a database is found to be after a loss of power.
#[derive(Debug, PartialEq)]
enum Found {
    Good,
    /// Why it is not.
    Bad(String),
}

fn look(path: &Path, promised: Option<i64>, by_unix: bool) -> Found {
    let db = if by_unix { open_unix(path) } else { open(path) };
    let bad = |why: String| Found::Bad(why);
    match try_value::<String>(&db, "PRAGMA integrity_check") {
        Ok(answer) if answer == "ok" => {}
        answer => return bad(format!("{answer:?}")),
    }
    if try_value::<String>(&db, "SELECT a FROM before").as_deref() != Ok("here") {
        return bad("what was there before is not".into());
    }
    let last = try_value::<i64>(&db, "SELECT ifnull(max(round), 0) FROM t").unwrap_or(0);
    if let Some(promised) = promised
        && !(promised..=promised + 1).contains(&last)
    {
        return bad(format!("{last}, {promised} were promised"));
    }
    let sql =
        "SELECT count(*) FROM (SELECT round, count(*) AS n FROM t GROUP BY round HAVING n <> 30)";
    match try_value::<i64>(&db, sql) {
        Ok(nr) if nr != 0 => bad(format!("{nr} transactions are there in part")),
        _ => Found::Good,
    }
}

/// The power goes `nr` times.
fn losses(recording: &Recording, nr: usize, is_durable: bool) -> Vec<String> {
    let mut numbers = Numbers(11);
    let mut bad = Vec::new();
    for loss in 0..nr {
        let at = numbers.below(recording.events.len() as i64) as usize;
        let dir = tempfile::tempdir().unwrap();
        let promised = recording.lose_power(at, dir.path(), &mut numbers);
        let found = look(
            &dir.path().join("db"),
            is_durable.then_some(promised),
            loss % 2 == 0,
        );
        if let Found::Bad(why) = found {
            bad.push(format!(
                "loss {loss} at {at} of {}: {why}",
                recording.events.len()
            ));
        }
    }
    bad
}

#[test]
fn a_loss_of_power_leaves_a_sound_database_and_every_transaction_that_was_promised_durable() {
    // SQLite's own promises: with a journal that is deleted a commit is durable with EXTRA, else with FULL; with less the database is sound.
    for (detail, page, is_durable) in [
        ("delete EXTRA", 4096, true),
        ("delete EXTRA", 1024, true),
        ("delete FULL", 4096, false),
        ("delete EXTRA &pw_direct=auto", 4096, true),
        ("persist FULL &pw_direct=auto&pw_page=16K", 1024, true),
        ("wal FULL &pw_direct=auto", 1024, true),
        ("truncate FULL", 4096, true),
        ("persist FULL", 4096, true),
        ("persist FULL", 512, true),
        ("wal FULL", 4096, true),
        ("wal FULL", 1024, true),
        ("wal NORMAL", 4096, false),
    ] {
        let Some(recording) = record(detail, page, false) else {
            return;
        };
        let nr_promised = recording
            .events
            .iter()
            .filter(|event| matches!(event, Event::Promise(_)))
            .count();
        assert_eq!(nr_promised as u64, NR_ROUNDS, "{detail}");
        let bad = losses(&recording, 40, is_durable);
        assert!(bad.is_empty(), "{detail}, pages of {page}: {bad:#?}");
    }
}

/// The test finds what there is to find: a disk that says that the database is synced, and has done nothing.
#[test]
fn a_disk_that_lies_about_syncs_is_found_out() {
    for detail in ["delete EXTRA", "persist FULL", "wal FULL"] {
        let Some(recording) = record(detail, 4096, true) else {
            return;
        };
        assert!(!losses(&recording, 40, true).is_empty(), "{detail}");
    }
}
