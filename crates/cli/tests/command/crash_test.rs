//! `pagewell crash-test`: the unbroken library passes, and what is broken on purpose is noticed.

use std::fs;

use crate::{pagewell, run};

/// How often a broken sync may go unnoticed by chance: a process that is killed before its first sync
/// proves nothing, and what the thread of the cache has written meanwhile is not lost.
const KILLS: u32 = 60;

#[test]
fn simulated_losses_of_power_lose_nothing_that_was_synced() {
    let finished = run(&mut pagewell(
        "crash-test simulated --seed 1 --histories 150 --format json",
    ))
    .succeeded();
    assert_eq!(finished.stderr, "");
    let record: serde_json::Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(record["crash_test"], "simulated");
    assert_eq!(record["seed"], "0x1");
    assert_eq!(record["runs"], 150);
    for counted in ["crashes", "syncs", "changes"] {
        assert!(record[counted].as_u64() > Some(150), "{counted}: {record}");
    }
    // Engines that the system has not are told.
    let told = |key: &str| record[key].as_array().map_or(0, Vec::len);
    assert_eq!(told("ways") + 2 * told("skipped"), 6, "{record}");
    assert!(record["faults"].as_u64() > Some(0), "{record}");
}

#[test]
fn a_sync_that_does_nothing_is_noticed_by_simulated_losses_of_power() {
    // With other engines the order in which a direct file is written is the machine's.
    let command = "crash-test simulated --seed 1 --histories 50 --engine sync --break sync";
    let finished = run(&mut pagewell(command));
    let replay = "pagewell crash-test simulated --seed ";
    let (_, arguments) = finished
        .stderr
        .split_once(replay)
        .expect("how to replay it");
    let again = run(&mut pagewell(&format!(
        "crash-test simulated --seed {}",
        arguments.trim()
    )));
    assert_eq!(finished.stderr, again.stderr, "the replay is the same");
    again.failed_saying(&["survived", "--histories 1", "--break sync"]);
    finished.failed_saying(&["survived"]);
    // The same histories, unbroken.
    run(&mut pagewell(
        "crash-test simulated --seed 1 --histories 50",
    ))
    .succeeded();
}

#[test]
fn a_log_that_is_not_synced_first_is_noticed_by_simulated_losses_of_power() {
    let command = "crash-test simulated --seed 1 --histories 200 --break log";
    run(&mut pagewell(command)).failed_saying(&["the log has no record of", "--break log"]);
}

#[test]
fn a_size_that_is_set_before_the_tail_is_noticed_by_simulated_losses_of_power() {
    let command = "crash-test simulated --seed 1 --histories 50 --break size";
    run(&mut pagewell(command)).failed_saying(&["Direct(", "--break size"]);
    // It is no matter to buffered files, nor to killed processes.
    for unused in ["simulated --transfers buffered", "kill"] {
        let command = format!("crash-test {unused} --break size");
        let finished = run(&mut pagewell(&command));
        assert_eq!(finished.code, Some(2), "{finished:?}");
        assert!(
            finished.stderr.contains("--break size is of no use"),
            "{finished:?}"
        );
    }
}

#[test]
fn the_way_that_is_asked_for_is_the_only_one() {
    let folder = pagewell_testkit::scratch::dir();
    let way = "--transfers direct --engine worker --seed 1 --format json";
    for test in ["simulated --histories 40", "kill --kills 6"] {
        let mut command = pagewell(&format!("crash-test {test} {way}"));
        if test.starts_with("kill") {
            command.arg("--dir").arg(folder.path());
        }
        let finished = run(&mut command);
        if finished.stderr.contains("this system has not direct") {
            pagewell_testkit::skip::skipped("no direct transfers here");
            continue;
        }
        let finished = finished.succeeded();
        let record: serde_json::Value = serde_json::from_str(&finished.stdout).unwrap();
        assert_eq!(record["ways"], serde_json::json!(["direct worker"]));
    }
}

#[test]
fn killed_writers_lose_nothing_that_was_synced() {
    let folder = pagewell_testkit::scratch::dir();
    for threads in ["", "--threads 1"] {
        let arguments = format!("crash-test kill --seed 1 --kills 12 {threads} --format json");
        let mut command = pagewell(&arguments);
        command.arg("--dir").arg(folder.path());
        let finished = run(&mut command).succeeded();
        let record: serde_json::Value = serde_json::from_str(&finished.stdout).unwrap();
        assert_eq!(record["crash_test"], "kill");
        assert_eq!(record["crashes"], 12);
        assert!(record["syncs"].as_u64() > Some(0), "{record}");
    }
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 0, "nothing is left behind");
}

#[test]
fn a_sync_that_does_nothing_is_noticed_after_a_kill() {
    let folder = pagewell_testkit::scratch::dir();
    let mut command = pagewell(&format!(
        "crash-test kill --seed 1 --kills {KILLS} --break sync"
    ));
    command.arg("--dir").arg(folder.path());
    let finished = run(&mut command);
    let (_, kept) = finished
        .stderr
        .split_once("the file is kept: ")
        .expect("the file");
    let (kept, _) = kept.split_once(';').expect("its name");
    assert!(
        fs::metadata(kept).is_ok_and(|file| file.len() > 0),
        "{kept}"
    );
    // Of a block that is older than it may be, or of a size: which of them is looked at first depends on when the writer was killed.
    finished.failed_saying(&["acknowledged", "--break sync"]);
}

#[test]
fn time_limits_and_both_tests_at_once() {
    // In the folder of the system: the command makes its file itself.
    pagewell_testkit::scratch::require_room();
    let finished = run(&mut pagewell("crash-test --seconds 0.2")).succeeded();
    let lines: Vec<_> = finished.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{finished:?}");
    assert!(lines[0].starts_with("simulated ") && lines[1].starts_with("kill "));
    assert!(lines.iter().all(|line| line.contains("nothing lost")));
}

#[test]
fn a_folder_that_is_not_there_is_a_failed_run_that_names_it() {
    run(&mut pagewell(
        "crash-test kill --kills 1 --dir /no/such/folder",
    ))
    .failed_saying(&["/no/such/folder", "No such file"]);
}

#[test]
fn a_writer_that_nobody_started_ends_with_an_error() {
    let writer = "crash-test-writer --parent 1 --file /no/such/file --seed 1 --life 1";
    run(&mut pagewell(writer)).failed_saying(&["is over"]);
    let ours = std::process::id();
    let writer =
        format!("crash-test-writer --parent {ours} --file /no/such/file --seed 1 --life 1");
    run(&mut pagewell(&writer)).failed_saying(&["/no/such/file"]);
}
