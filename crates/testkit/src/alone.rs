//! Tests that need a process of their own.

use std::process::Command;

/// The environment variable that marks the process of one test.
const VARIABLE: &str = "PAGEWELL_TEST_ALONE";

/// Returns true in a process that runs the test `name` alone. Otherwise, runs that test in such a process and returns
/// false. `name` is the test's path within its test program, as `--list` prints it.
///
/// # Panics
///
/// If the test fails in its process, or the test program has no test of this name.
#[track_caller]
#[must_use]
pub fn alone(name: &str) -> bool {
    if std::env::var_os(VARIABLE).is_some_and(|test| test == name) {
        return true;
    }
    let program = std::env::current_exe().expect("the path of this test program");
    let output = Command::new(program)
        .args([
            name,
            "--exact",
            "--nocapture",
            "--include-ignored",
            "--test-threads=1",
        ])
        .env(VARIABLE, name)
        .output()
        .expect("a process of this test program");
    let (text, errors) = (&output.stdout, &output.stderr);
    let (text, errors) = (
        String::from_utf8_lossy(text),
        String::from_utf8_lossy(errors),
    );
    assert!(output.status.success(), "{name}, alone: {text}\n{errors}");
    assert!(text.contains("1 passed"), "no such test: {name}");
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_runs_in_a_process_of_its_own() {
        let before = std::process::id();
        if alone("alone::tests::a_test_runs_in_a_process_of_its_own") {
            let parent = std::os::unix::process::parent_id();
            assert_ne!(before, parent);
            println!("alone");
        }
    }

    #[test]
    #[should_panic(expected = "no such test")]
    fn a_name_of_no_test_is_an_error() {
        let _ = alone("alone::tests::none");
    }
}
