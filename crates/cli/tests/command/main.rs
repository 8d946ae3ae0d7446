//! The command as a user runs it: output, exit codes, errors.
//!
//! The runs are as short as can be; what they measure means nothing.

mod crash_test;
mod files;
mod info;
mod interrupted;
mod json;
mod processes;
mod replay;
mod screen;
mod usage;
mod what_if;

use std::process::{Command, Output};

/// The built command, apart from the terminal and the user's settings.
fn pagewell(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pagewell"));
    command.args(arguments.split_whitespace());
    command
}

/// Short runs on small files.
const SHORT: &str = "--seconds 0.002 --rounds 1 --threads 1,2";

/// Notes that say what the machine has not: they tell nothing of the run.
const OF_THE_MACHINE: [&str; 4] = [
    "fio is not installed",
    ": they take turns, and the figures say so",
    "of memory can be taken",
    // Where temporary files are in memory.
    "no direct transfers in",
];

/// What a run has said on standard error, but for what it says because of the machine.
fn told(stderr: &str) -> Vec<&str> {
    let of_the_machine = |line: &&str| OF_THE_MACHINE.iter().any(|words| line.contains(words));
    stderr
        .lines()
        .filter(|line| !of_the_machine(line))
        .collect()
}

/// Runs it to the end.
fn run(command: &mut Command) -> Finished {
    let output = command.output().expect("the command can be started");
    Finished::from(output)
}

/// What a command said, and how it ended.
#[derive(Debug)]
struct Finished {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl From<Output> for Finished {
    fn from(output: Output) -> Finished {
        Finished {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("standard output is text"),
            stderr: String::from_utf8(output.stderr).expect("standard error is text"),
        }
    }
}

impl Finished {
    /// Exit code 0.
    fn succeeded(self) -> Finished {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }

    /// Exit code 1, and one line that contains all of `words`.
    fn failed_saying(self, words: &[&str]) {
        assert_eq!(self.code, Some(1), "{self:?}");
        assert_eq!(told(&self.stderr).len(), 1, "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "no {word:?} in {self:?}");
        }
    }
}
