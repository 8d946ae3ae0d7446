//! Signals in the course of a benchmark.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::process::{Child, Command, Stdio};

use pagewell_testkit::wait;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{Finished, pagewell};

/// Two cells, each with temporary files of its own.
const TWO_CELLS: &str = "bench tree --case inserts,inserts-sync --threads 1 --rounds 1 --seconds";

/// A run in the background, whose temporary files are in a folder of its own.
struct Running {
    child: Child,
    folder: TempDir,
}

impl Running {
    fn start(command: &mut Command) -> Running {
        let folder = pagewell_testkit::scratch::dir();
        let child = command
            .env("TMPDIR", folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Running { child, folder }
    }

    /// The names of the temporary files.
    fn files(&self) -> BTreeSet<OsString> {
        fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect()
    }

    /// Waits until the first cell has a file, and returns its name.
    fn first_cell(&self) -> BTreeSet<OsString> {
        wait::until("the first cell has a file", || !self.files().is_empty());
        self.files()
    }

    fn kill(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end. No file is left.
    fn finished(self) -> Finished {
        let Running { child, folder } = self;
        let finished = Finished::from(child.wait_with_output().unwrap());
        let nr_files = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(nr_files, 0, "{finished:?}");
        finished
    }
}

#[test]
fn interrupted_benchmark_shows_the_cells_it_has_measured() {
    let running = Running::start(&mut pagewell(&format!("{TWO_CELLS} 3")));
    let of_first = running.first_cell();
    wait::until("the second cell has files", || {
        let files = running.files();
        !files.is_empty() && files.is_disjoint(&of_first)
    });
    running.kill(Signal::INT);
    let finished = running.finished();
    assert_eq!(finished.code, Some(130), "{finished:?}");
    assert!(finished.stderr.ends_with("pagewell: interrupted\n"));
    let has_table = |case: &str| {
        let title = format!("{case}: ");
        finished.stdout.lines().any(|line| line.starts_with(&title))
    };
    assert!(has_table("inserts"), "{finished:?}");
    assert!(!has_table("inserts-sync"), "{finished:?}");
}

#[test]
fn a_signal_that_was_ignored_stays_ignored() {
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' HUP; exec \"$@\"", "sh"])
        .arg(env!("CARGO_BIN_EXE_pagewell"))
        .args(TWO_CELLS.split_whitespace())
        .arg("0.3");
    let running = Running::start(&mut command);
    running.first_cell();
    running.kill(Signal::HUP);
    running.finished().succeeded();
}
