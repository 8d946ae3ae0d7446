//! Worker processes: nobody waits for one that died, and none is left behind.

use std::fs;
use std::io::Read;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use pagewell_testkit::wait::limit;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::pagewell;

/// Far longer than a test may take: who waits for the end has failed.
const LONG: &str =
    "bench refcount --case one-count-processes --threads 3 --seconds 300 --rounds 1 --format json";

/// A running benchmark and its three worker processes.
struct Running {
    coordinator: Child,
    workers: Vec<Pid>,
}

/// Starts a long run; none where the system does not list a process's children.
fn start() -> Option<Running> {
    let coordinator = pagewell(LONG)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut running = Running {
        workers: Vec::new(),
        coordinator,
    };
    let id = running.coordinator.id();
    let list = format!("/proc/{id}/task/{id}/children");
    let begin = Instant::now();
    while running.workers.len() < 3 {
        assert!(begin.elapsed() < limit(), "the workers do not start");
        thread::sleep(Duration::from_millis(10));
        let Ok(children) = fs::read_to_string(&list) else {
            running.coordinator.kill().unwrap();
            running.coordinator.wait().unwrap();
            pagewell_testkit::skip::skipped("the system does not list a process's children");
            return None;
        };
        running.workers = children
            .split_whitespace()
            .filter_map(|id| Pid::from_raw(id.parse().ok()?))
            .collect();
    }
    // They have begun to work, or are about to: either way must end well.
    thread::sleep(Duration::from_millis(100));
    Some(running)
}

fn wait_until_gone(workers: &[Pid]) {
    let begin = Instant::now();
    while workers
        .iter()
        .any(|&worker| test_kill_process(worker).is_ok())
    {
        assert!(begin.elapsed() < limit(), "a worker was left behind");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_worker_that_dies_ends_the_run_with_an_error() {
    let Some(mut running) = start() else { return };
    kill_process(running.workers[1], Signal::KILL).unwrap();
    let mut stderr = String::new();
    let mut pipe = running.coordinator.stderr.take().unwrap();
    pipe.read_to_string(&mut stderr).unwrap();
    let status = running.coordinator.wait().unwrap();
    assert_eq!(status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("worker process 1"), "{stderr}");
    wait_until_gone(&running.workers);
}

#[test]
fn workers_end_with_their_coordinator() {
    let Some(mut running) = start() else { return };
    running.coordinator.kill().unwrap();
    running.coordinator.wait().unwrap();
    wait_until_gone(&running.workers);
}
