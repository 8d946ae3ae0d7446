//! Runs the mutants.
//!
//! | module | what |
//! |---|---|
//! | [`mutant`] | a mutant file: its format, and what it does to a source text |
//! | [`tree`] | the scratch copy of the workspace in which mutants are built |
//! | [`hunt`] | all mutants together, and the report |
//!
//! `verify/README.md` describes the commands and the format of the mutants.

#![forbid(unsafe_code)]

pub mod hunt;
pub mod mutant;
pub mod tree;

use std::path::{Path, PathBuf};

/// How a run ended, from which the exit code of the process follows.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Everything that ran is as it must be; what could not run was reported as skipped.
    Well,
    /// Something is not as it must be.
    Failed,
}

/// Why a run did not come to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// The caller asked for something that does not exist.
    Usage(String),
    /// Something that the run needs failed: a file, git, cargo.
    Broken(String),
}

impl From<String> for Trouble {
    fn from(message: String) -> Self {
        Self::Broken(message)
    }
}

/// The `verify` folder of the workspace: the one that Cargo names for a run of this crate, or the
/// first that is found upwards from the current folder.
pub fn verify_folder() -> Result<PathBuf, String> {
    let is_ours = |dir: &Path| dir.join("mutants").is_dir() && dir.join("Cargo.toml").is_file();
    if let Some(dir) = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from)
        && is_ours(&dir)
    {
        return Ok(dir);
    }
    let here = std::env::current_dir().map_err(|e| format!("no current folder: {e}"))?;
    here.ancestors()
        .map(|dir| dir.join("verify"))
        .find(|dir| is_ours(dir))
        .ok_or_else(|| "no verify/mutants here or above; run it inside the workspace".to_owned())
}
