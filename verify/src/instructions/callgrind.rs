//! Valgrind: where it is, how it is called, what it counts.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Output};

/// How to get what is missing, for the message that says that the counts were skipped.
pub const GET_VALGRIND: &str = "no valgrind on PATH (Debian package valgrind)";

/// A valgrind that can be called.
#[derive(Debug, Clone)]
pub struct Callgrind {
    valgrind: PathBuf,
}

impl Callgrind {
    /// The first valgrind on `path`.
    pub fn find(path: Option<OsString>) -> Option<Self> {
        let path = path?;
        let mut candidates = std::env::split_paths(&path).map(|dir| dir.join("valgrind"));
        let valgrind = candidates.find(|program| program.is_file())?;
        Some(Self { valgrind })
    }

    /// What it says of its version.
    pub fn version(&self) -> Result<String, String> {
        let output = self.run(Command::new(&self.valgrind).arg("--version"))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// How many instructions a command has, those of all its threads.
    pub fn count(&self, command: &mut Command) -> Result<u64, String> {
        let output = self.run(
            Command::new(&self.valgrind)
                .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
                .arg(command.get_program())
                .args(command.get_args()),
        )?;
        let text = String::from_utf8_lossy(&output.stderr);
        collected(&text).ok_or_else(|| format!("callgrind gave no count:\n{}", text.trim()))
    }

    fn run(&self, command: &mut Command) -> Result<Output, String> {
        let output = command
            .output()
            .map_err(|e| format!("cannot run {}: {e}", self.valgrind.display()))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(format!(
                "valgrind failed ({}): {}",
                output.status,
                text.trim()
            ));
        }
        Ok(output)
    }
}

/// The count in what callgrind says at its end: `==1== Collected : 12345`.
fn collected(text: &str) -> Option<u64> {
    text.lines()
        .filter_map(|line| line.split_once("Collected :"))
        .find_map(|(_, count)| count.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_read_from_callgrinds_words() {
        let text = "==7== Events    : Ir\n==7== Collected : 9732564\n==7== \n==7== I   refs:      9,732,564\n";
        assert_eq!(collected(text), Some(9_732_564));
        assert_eq!(collected("==7== Events    : Ir\n"), None);
    }
}
