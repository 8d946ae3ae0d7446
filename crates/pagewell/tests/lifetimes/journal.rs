//! Operations of each thread, printed with the seed of the history, if a check fails.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pagewell_testkit::wait;

/// Number of printed operations of each thread.
const MAX_PRINTED: usize = 16;

/// Operations of the current history, by name of thread.
static JOURNAL: Mutex<BTreeMap<String, Operations>> = Mutex::new(BTreeMap::new());

#[derive(Default)]
struct Operations {
    names: Vec<String>,
    /// Start of the last operation, unless it has returned.
    start: Option<Instant>,
}

fn lock() -> MutexGuard<'static, BTreeMap<String, Operations>> {
    JOURNAL.lock().unwrap_or_else(PoisonError::into_inner)
}

fn current_thread() -> String {
    thread::current().name().unwrap_or("unnamed").to_owned()
}

/// Begins the journal of a history.
pub(crate) fn begin(seed: u64) {
    lock().clear();
    step(
        format!("PAGEWELL_SEED={seed:#x} replays this history"),
        || {},
    );
}

/// Prints to standard error itself: the test harness prints no captured output after an abort.
fn print(fault: &str) {
    let mut text = format!("{fault}\n");
    for (thread, Operations { names, start }) in &*lock() {
        let elapsed = start.map(|start| start.elapsed());
        text += &format!("{thread}, time since the start of its last operation: {elapsed:?}\n");
        for name in &names[names.len().saturating_sub(MAX_PRINTED)..] {
            text += &format!("    {name}\n");
        }
    }
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Runs `body` as an operation of this thread, whose duration the [watchdog](watch) limits.
pub(crate) fn step<R>(name: impl Into<String>, body: impl FnOnce() -> R) -> R {
    let mut journal = lock();
    let thread = journal.entry(current_thread()).or_default();
    thread.names.push(name.into());
    thread.start = Some(Instant::now());
    drop(journal);
    let result = body();
    lock().entry(current_thread()).or_default().start = None;
    result
}

/// Aborts the process if an operation takes longer than `limit`.
pub(crate) fn watch(limit: Duration) -> ! {
    let limit = wait::scaled(limit);
    let hangs = |thread: &Operations| thread.start.is_some_and(|start| start.elapsed() > limit);
    while !lock().values().any(hangs) {
        thread::sleep(Duration::from_millis(100));
    }
    print(&format!("an operation takes longer than {limit:?}"));
    std::process::abort()
}

/// Prints the journal if a panic drops it.
pub(crate) struct PrintOnPanic;

impl Drop for PrintOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            print("a check failed");
        }
    }
}
