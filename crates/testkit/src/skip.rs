//! A report of the tests that this machine cannot run.

use std::io::Write;
use std::thread;

/// Reports on standard error that the test on this thread leaves something out, and why. The words are shown even if
/// the test passes; the harness would keep those of `eprintln!`.
pub fn skipped(why: &str) {
    let test = thread::current();
    let test = test.name().unwrap_or("a test");
    // If nobody reads it, that is no reason to fail.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
}
