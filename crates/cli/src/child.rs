//! The same program again, as a process of its own that ends with this one.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::failure::Failure;

/// The program that runs now, also when its file was replaced since, with a command that
/// [ends with](end_with) this process. It is started by `std`, not forked.
pub(crate) fn command(name: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("pagewell")
        .arg(name)
        .arg(format!("--parent={}", std::process::id()));
    command
}

/// Has this process killed when its parent ends, which must be the process `parent`; `whole` is what
/// the two do together.
pub(crate) fn end_with(parent: i32, whole: &str) -> Result<(), Failure> {
    // Should the parent have died before this call, its signal is lost, but it is not our parent any more.
    let now = || getppid().map(|pid| pid.as_raw_nonzero().get());
    let asked = set_parent_process_death_signal(Some(Signal::KILL));
    if asked.is_err() || now() != Some(parent) {
        return Err(Failure::Run(format!(
            "the {whole} that this belongs to is over"
        )));
    }
    Ok(())
}

/// What an ended process has written to standard error.
pub(crate) fn last_words(child: &mut Child) -> String {
    let mut said = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        // Whatever could be read is better than nothing.
        let _ = stderr.read_to_string(&mut said);
    }
    said.trim().to_owned()
}

/// The last line of what a process has said, without the name of the program.
pub(crate) fn last_line(said: &str) -> Option<&str> {
    let last = said.lines().next_back()?;
    Some(last.strip_prefix("pagewell: ").unwrap_or(last))
}
