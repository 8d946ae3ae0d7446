//! Files of the user's, and places for temporary ones.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::{SHORT, pagewell, run};

/// A read benchmark of the file at `path`.
fn bench_file(path: &std::path::Path) -> Command {
    let mut command = pagewell(&format!("bench read --quick --format json {SHORT}"));
    command.arg("--file").arg(path);
    command
}

fn file_of(bytes: usize) -> tempfile::NamedTempFile {
    let mut file = pagewell_testkit::scratch::file();
    let content: Vec<u8> = (0..bytes).map(|n| (n * 7 % 251) as u8).collect();
    file.write_all(&content).unwrap();
    file
}

#[test]
fn a_file_of_any_size_is_read_and_left_as_it_was() {
    for bytes in [1, 63, 64, 5000, 4096 * 3 + 1] {
        let file = file_of(bytes);
        let before = fs::read(file.path()).unwrap();
        let mut command = bench_file(file.path());
        command.args(["--block", "1,64,4K"]);
        let finished = run(&mut command).succeeded();
        assert!(
            finished
                .stdout
                .contains(&format!("\"file_bytes\":{bytes},"))
        );
        assert!(!finished.stdout.contains("diff-hot"));
        assert!(
            finished.stderr.contains("diff-hot is left out"),
            "{}",
            finished.stderr
        );
        assert_eq!(fs::read(file.path()).unwrap(), before);
    }
}

#[test]
fn every_page_size_and_a_cache_smaller_than_the_file_work() {
    let file = file_of(300_000);
    for arguments in [
        "--page-size 4K",
        "--page-size 8K",
        "--page-size 16384",
        "--page-size 32KiB",
        "--page-size 64k",
        "--capacity 128K",
        "--huge-pages no",
    ] {
        let mut command = bench_file(file.path());
        command.args(arguments.split_whitespace());
        let finished = run(&mut command).succeeded();
        if arguments.starts_with("--capacity") {
            assert!(
                finished.stderr.contains("does not hold"),
                "{}",
                finished.stderr
            );
        }
    }
}

#[test]
fn a_sparse_file_works() {
    let file = pagewell_testkit::scratch::file();
    file.as_file().set_len(1 << 20).unwrap();
    run(&mut bench_file(file.path())).succeeded();
}

#[test]
fn a_missing_file_is_a_failed_run_that_names_it() {
    let folder = pagewell_testkit::scratch::dir();
    let path = folder.path().join("no-such-file");
    run(&mut bench_file(&path)).failed_saying(&["no-such-file", "No such file"]);
}

#[test]
fn an_empty_file_is_a_failed_run_that_says_so() {
    let file = file_of(0);
    let name = file.path().display().to_string();
    run(&mut bench_file(file.path())).failed_saying(&[&name, "empty"]);
}

#[test]
fn what_is_not_a_file_is_refused_without_waiting_for_it() {
    let path = "/dev/null";
    run(&mut bench_file(path.as_ref())).failed_saying(&[path, "not a regular file"]);
    let folder = pagewell_testkit::scratch::dir();
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    if made.is_ok_and(|status| status.success()) {
        run(&mut bench_file(&pipe)).failed_saying(&["pipe", "not a regular file"]);
    }
}

#[test]
fn a_file_without_permission_is_a_failed_run_that_names_it() {
    let file = file_of(100);
    fs::set_permissions(file.path(), Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(file.path()).is_ok() {
        pagewell_testkit::skip::skipped("the superuser may read everything");
        return;
    }
    let name = file.path().display().to_string();
    run(&mut bench_file(file.path())).failed_saying(&[&name, "ermission denied"]);
}

#[test]
fn a_capacity_beyond_the_machine_is_a_failed_run_that_says_so() {
    let file = file_of(100);
    let mut command = bench_file(file.path());
    command.args(["--capacity", "1000000T"]);
    let finished = run(&mut command);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.stderr.contains("capacity"), "{finished:?}");
}

#[test]
fn a_bad_folder_for_temporary_files_is_told_and_another_one_used() {
    let arguments = format!("bench read --quick --size 64K --case same-hot {SHORT}");
    // Nothing can be made there, not even by the superuser.
    for mut command in [
        pagewell(&format!("{arguments} --dir /proc")),
        pagewell(&format!("{arguments} --dir /no/such/folder")),
    ] {
        let finished = run(&mut command).succeeded();
        assert!(finished.stderr.starts_with("note: "), "{finished:?}");
        assert!(finished.stderr.contains("made in"), "{finished:?}");
    }
    let finished = run(pagewell(&arguments).env("TMPDIR", "/proc")).succeeded();
    assert!(finished.stderr.contains("/proc"), "{finished:?}");
}

#[test]
fn nothing_is_left_in_the_folder_for_temporary_files() {
    let folder = pagewell_testkit::scratch::dir();
    let mut command = pagewell(&format!("bench read --quick --size 64K {SHORT}"));
    command.arg("--dir").arg(folder.path());
    let finished = run(&mut command).succeeded();
    assert!(
        finished
            .stdout
            .contains(&folder.path().display().to_string())
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn writes_leave_no_file_behind() {
    let folder = pagewell_testkit::scratch::dir();
    let cases = "write-random,write-beside-waiters,append,writeback";
    let mut command = pagewell(&format!(
        "bench write --quick --size 64K --case {cases} {SHORT} --dir"
    ));
    command.arg(folder.path());
    run(&mut command).succeeded();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_users_file_is_not_written_to() {
    let file = file_of(100_000);
    let before = fs::read(file.path()).unwrap();
    let mut command = pagewell(&format!(
        "bench all --quick {SHORT} --case same-hot,append --file"
    ));
    command.arg(file.path());
    let finished = run(&mut command).succeeded();
    assert!(
        finished.stderr.contains("bench write is left out"),
        "{}",
        finished.stderr
    );
    assert_eq!(fs::read(file.path()).unwrap(), before);
}

#[test]
fn a_cache_that_holds_few_dirty_pages_is_written_back_meanwhile() {
    let finished = run(&mut pagewell(&format!(
        "bench write --quick --size 1M --capacity 1M --case write-random {SHORT}"
    )))
    .succeeded();
    assert!(
        finished
            .stderr
            .contains("writing them back is measured too"),
        "{}",
        finished.stderr
    );
}
