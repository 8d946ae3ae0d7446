//! What is not tested on this machine is told.

use std::io::Write;
use std::thread;

/// Says on standard error that the test which runs on this thread leaves something out, and why. The words are shown though
/// the test passes, which is what the harness keeps the words of `eprintln!` for.
pub fn skipped(why: &str) {
    let test = thread::current();
    let test = test.name().unwrap_or("a test");
    // That nobody reads it is no reason to fail.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
}
