//! Threads and processes that open, use, close, delete, rename, fork and exec, by a seed.
//!
//! After each history nothing is left: the numbers of threads and descriptors and the memory are as
//! they were after the first ones, and another process finds no lock, although children that were
//! forked during the history still live. During a history an open or a transaction fails only if
//! another process has the database at that time.
//!
//! `PAGEWELL_SEED` selects the first history (default: random), `PAGEWELL_SOAK_SECONDS` the time
//! (default: four seconds).

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use pagewell_testkit::Seed;
use rusqlite::{Connection, ffi};

use support::*;

const NR_NAMES: usize = 4;
const NR_THREADS: u8 = 4;
const NR_STEPS: usize = 25;
const MAX_CHILDREN: usize = 4;

#[test]
#[ignore = "a job of another process, which the test starts"]
fn jobs() {
    let Ok(job) = std::env::var("PAGEWELL_JOB") else {
        return;
    };
    let path = PathBuf::from(std::env::var_os("PAGEWELL_PATH").unwrap());
    let detail = std::env::var("PAGEWELL_DETAIL").unwrap();
    match &*job {
        "insert" => {
            let db = match &*detail {
                "unix" => Ok(open_unix(&path)),
                _ => try_open(&path, ""),
            };
            let inserted = db.and_then(|db| {
                db.busy_timeout(Duration::ZERO)?;
                db.execute_batch("INSERT INTO t VALUES(1)")
            });
            match inserted {
                Ok(()) => say("done"),
                Err(error) => say(code(&error)),
            }
        }
        "leave a child" => {
            let db = open(&path);
            db.execute_batch("INSERT INTO t VALUES(1)").unwrap();
            let child = fork_idle();
            say(child);
            std::mem::forget(db);
        }
        _ => unreachable!("{job}"),
    }
    // Before the test harness prints a result: the starter has closed the pipe.
    std::process::exit(0);
}

/// Forks a child that calls nothing, and lives until it is killed. Returns after the fork handlers
/// have run in the child: until then it has the locks of this process.
fn fork_idle() -> libc::pid_t {
    let mut ends = [0; 2];
    // SAFETY: the array has room for two descriptors.
    let made = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) };
    assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the child makes only calls that a signal handler may make.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: the descriptor is open, and the byte is readable.
            unsafe { libc::write(ends[1], [0_u8].as_ptr().cast(), 1) };
            loop {
                // If the test is killed, the alarm ends the child.
                // SAFETY: no pointers.
                unsafe { libc::alarm(60) };
                // SAFETY: as above.
                unsafe { libc::pause() };
            }
        }
        child => {
            assert!(child > 0, "{}", std::io::Error::last_os_error());
            let mut byte = [0_u8];
            // SAFETY: the descriptor is open, and the byte is writable.
            let nr = unsafe { libc::read(ends[0], byte.as_mut_ptr().cast(), 1) };
            assert_eq!(nr, 1, "{}", std::io::Error::last_os_error());
            for end in ends {
                // SAFETY: no other thread uses the descriptors.
                unsafe { libc::close(end) };
            }
            child
        }
    }
}

/// Path of a database, which may be deleted and created again.
struct Name {
    path: PathBuf,
    /// Locked for writing to delete the database, and for reading to use it.
    gate: RwLock<()>,
    /// Number of other processes that have been started for this database, and that have ended.
    nr_started: AtomicUsize,
    nr_ended: AtomicUsize,
}

impl Name {
    fn journal_mode(&self) -> &'static str {
        match self.path.ends_with("1") || self.path.ends_with("3") {
            true => "wal",
            false => "delete",
        }
    }

    fn create(&self) {
        let db = open(&self.path);
        set_mode(&db, self.journal_mode());
        db.execute_batch("PRAGMA synchronous=OFF; CREATE TABLE t(a)")
            .unwrap();
        db.close().map_err(|(_, error)| error).unwrap();
    }

    /// Opens the database and makes a transaction. Returns `None` if another process had it.
    fn try_use(&self) -> Option<Connection> {
        let nr_ended = self.nr_ended.load(Ordering::SeqCst);
        let used = try_open(&self.path, "").and_then(|db| {
            db.execute_batch(
                "PRAGMA synchronous=OFF; BEGIN IMMEDIATE; INSERT INTO t VALUES(1); COMMIT",
            )?;
            Ok(db)
        });
        match used {
            Ok(db) => Some(db),
            Err(error) => {
                let had_others = self.nr_started.load(Ordering::SeqCst) > nr_ended;
                let is_busy = code(&error) == ffi::SQLITE_BUSY;
                assert!(is_busy && had_others, "{}: {error}", self.path.display());
                None
            }
        }
    }

    /// Another process does a job with the database. Returns what it reports.
    fn elsewhere(&self, job: &str, detail: &str) -> String {
        self.nr_started.fetch_add(1, Ordering::SeqCst);
        let mut child = start(job, &self.path, detail);
        let answer = answers(&mut child).next();
        child.wait().unwrap();
        self.nr_ended.fetch_add(1, Ordering::SeqCst);
        answer.expect("the other process has an answer")
    }

    /// The caller has locked the gate for writing.
    fn delete(path: &Path) {
        std::fs::remove_file(path).unwrap();
        for suffix in ["-journal", "-wal", "-shm"] {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            let _ = std::fs::remove_file(name);
        }
    }
}

/// A connection that stays open for some steps.
struct Held<'n> {
    db: Connection,
    _in_use: RwLockReadGuard<'n, ()>,
}

/// Children that were forked, and have called nothing since.
#[derive(Default)]
struct Children(Mutex<Vec<libc::pid_t>>);

impl Children {
    fn fork(&self) {
        let mut all = self.0.lock().unwrap();
        if all.len() == MAX_CHILDREN {
            return;
        }
        all.push(fork_idle());
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for child in self.0.get_mut().unwrap().drain(..) {
            // SAFETY: a child of this process that was not awaited yet.
            unsafe { libc::kill(child, libc::SIGKILL) };
            // SAFETY: as above; no status is asked for.
            unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        }
    }
}

fn run_steps(names: &[Name], children: &Children, mut numbers: Numbers) {
    let mut held: Vec<Held<'_>> = Vec::new();
    for _ in 0..NR_STEPS {
        let name = &names[numbers.below(NR_NAMES as i64) as usize];
        match numbers.below(21) {
            0..10 => {
                let _in_use = name.gate.read().unwrap();
                if let Some(db) = name.try_use() {
                    db.close().map_err(|(_, error)| error).unwrap();
                }
            }
            10..13 if held.len() < 3 => {
                let in_use = name.gate.read().unwrap();
                let db = name.try_use();
                held.extend(db.map(|db| Held {
                    db,
                    _in_use: in_use,
                }));
            }
            10..15 => {
                if let Some(Held { db, _in_use }) = held.pop() {
                    db.execute_batch("INSERT INTO t VALUES(2)").unwrap();
                    db.close().map_err(|(_, error)| error).unwrap();
                }
            }
            15 => {
                // Not awaited: this thread may itself use the database.
                if let Ok(_alone) = name.gate.try_write() {
                    Name::delete(&name.path);
                    name.create();
                }
            }
            16 => {
                if let Ok(_alone) = name.gate.try_write() {
                    let renamed = name.path.with_extension("renamed");
                    std::fs::rename(&name.path, &renamed).unwrap();
                    name.create();
                    check(&open(&renamed));
                    Name::delete(&renamed);
                }
            }
            17 => {
                let _in_use = name.gate.read().unwrap();
                let vfs = ["unix", "pagewell"][numbers.below(2) as usize];
                let answer = name.elsewhere("insert", vfs);
                let busy = ffi::SQLITE_BUSY.to_string();
                assert!(answer == "done" || answer == busy, "{vfs}: {answer}");
            }
            18 => children.fork(),
            19 => {
                if let Ok(_alone) = name.gate.try_write() {
                    let child = name.elsewhere("leave a child", "").parse().unwrap();
                    let vfs = ["unix", "pagewell"][numbers.below(2) as usize];
                    assert_eq!(name.elsewhere("insert", vfs), "done", "a child has a lock");
                    // SAFETY: no pointers. The process was forked for this test, and lives.
                    unsafe { libc::kill(child, libc::SIGKILL) };
                }
            }
            _ => {
                let status = Command::new("true").stdin(Stdio::null()).status();
                assert!(status.unwrap().success());
            }
        }
    }
}

/// Threads, descriptors and resident memory of this process.
#[derive(Clone, Copy, Debug)]
struct Resources {
    nr_threads: u64,
    nr_descriptors: usize,
    kib: u64,
}

impl Resources {
    fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let mut words = line.unwrap().split_whitespace();
            words.next().unwrap().parse().unwrap()
        };
        Self {
            nr_threads: number("Threads:"),
            nr_descriptors: std::fs::read_dir("/proc/self/fd").unwrap().count(),
            kib: number("VmRSS:"),
        }
    }
}

/// One history, in a folder of its own. Returns what is left in use after it.
fn history(seed: u64) -> Resources {
    let dir = tempfile::tempdir().unwrap();
    let name = |nr: usize| Name {
        path: dir.path().join(nr.to_string()),
        gate: RwLock::default(),
        nr_started: AtomicUsize::new(0),
        nr_ended: AtomicUsize::new(0),
    };
    let names: Vec<_> = (0..NR_NAMES).map(name).collect();
    names.iter().for_each(Name::create);
    let children = Children::default();
    std::thread::scope(|scope| {
        for nr in 0..NR_THREADS {
            let (names, children) = (&names, &children);
            let numbers = Numbers(seed.wrapping_mul(31).wrapping_add(nr.into()) as i64);
            scope.spawn(move || run_steps(names, children, numbers));
        }
    });
    // The children still live, and have the descriptors of the fork.
    for (nr, name) in names.iter().enumerate() {
        let vfs = ["unix", "pagewell"][nr % 2];
        assert_eq!(name.elsewhere("insert", vfs), "done", "a lock is left");
        let db = open(&name.path);
        check(&db);
        db.close().map_err(|(_, error)| error).unwrap();
    }
    drop(children);
    Resources::now()
}

#[test]
fn histories_leave_nothing_in_use() {
    load();
    let seed = Seed::of_run().get();
    let seconds = match std::env::var("PAGEWELL_SOAK_SECONDS") {
        Ok(text) => text.parse().expect("PAGEWELL_SOAK_SECONDS is a number"),
        Err(_) => 4,
    };
    let begin = Instant::now();
    // The first histories start the threads of the cache, and fill it.
    let first = [history(seed), history(seed.wrapping_add(1))];
    let most = |of: fn(&Resources) -> u64| first.iter().map(of).max().unwrap();
    let (nr_threads, kib) = (most(|r| r.nr_threads), most(|r| r.kib));
    let nr_descriptors = first[0].nr_descriptors.max(first[1].nr_descriptors);
    let mut nr = 2;
    while begin.elapsed() < Duration::from_secs(seconds) || nr < 4 {
        let seed = seed.wrapping_add(nr);
        let left = history(seed);
        let replay = format!("PAGEWELL_SEED={seed}: {left:?}, at first {first:?}");
        // Threads that are idle end after some time, and others start.
        assert!(left.nr_threads <= nr_threads + 4, "{replay}");
        assert!(left.nr_descriptors <= nr_descriptors, "{replay}");
        assert!(left.kib < kib + (96 << 10), "{replay}");
        nr += 1;
    }
    println!("{nr} histories");
}
