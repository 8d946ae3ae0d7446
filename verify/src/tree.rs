//! The scratch copy of the workspace in which mutants are built.
//!
//! The developer's own tree is never written to. The copy and its build artefacts stay between runs,
//! and a refresh writes only the files that differ, so that Cargo rebuilds only what they touch.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder inside the scratch folder that holds the sources.
const SOURCES: &str = "tree";

/// A copy of the sources of a workspace.
#[derive(Debug)]
pub struct Tree {
    sources: PathBuf,
}

impl Tree {
    /// Makes the copy in `scratch` equal to the files of the workspace at `root` that git tracks or
    /// would track.
    pub fn refresh(root: &Path, scratch: &Path) -> Result<Self, String> {
        let sources = scratch.join(SOURCES);
        let files = listed_files(root)?;
        create_dir(&sources)?;
        for file in &files {
            let to = sources.join(file);
            copy_if_different(&root.join(file), &to)?;
        }
        remove_unlisted(&sources, Path::new(""), &files)?;
        Ok(Self { sources })
    }

    /// The root of the copy.
    pub fn root(&self) -> &Path {
        &self.sources
    }

    /// The text of a file of the copy.
    pub fn read(&self, file: &Path) -> Result<String, String> {
        let path = self.sources.join(file);
        fs::read_to_string(&path).map_err(|e| format!("cannot read {}: {e}", file.display()))
    }

    /// Puts `text` in place of a file of the copy.
    pub fn write(&self, file: &Path, text: &str) -> Result<(), String> {
        let path = self.sources.join(file);
        fs::write(&path, text).map_err(|e| format!("cannot write {}: {e}", file.display()))
    }
}

/// The files of the workspace at `root` that git tracks or would track, and that are there.
fn listed_files(root: &Path) -> Result<BTreeSet<PathBuf>, String> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .map_err(|e| format!("cannot run git: {e}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("git ls-files failed: {}", why.trim()));
    }
    Ok(output
        .stdout
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| PathBuf::from(OsStr::from_bytes(name)))
        .filter(|file| root.join(file).is_file())
        .collect())
}

fn copy_if_different(from: &Path, to: &Path) -> Result<(), String> {
    let bytes = fs::read(from).map_err(|e| format!("cannot read {}: {e}", from.display()))?;
    if fs::read(to).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    if let Some(parent) = to.parent() {
        create_dir(parent)?;
    }
    // `fs::copy` keeps the permissions and gives the copy a fresh time, by which Cargo sees it.
    fs::copy(from, to)
        .map(drop)
        .map_err(|e| format!("cannot copy to {}: {e}", to.display()))
}

/// Removes what is under `root`/`inner` and not in `files`, so that a deleted module is gone here too.
fn remove_unlisted(root: &Path, inner: &Path, files: &BTreeSet<PathBuf>) -> Result<(), String> {
    let dir = root.join(inner);
    let show = |e: std::io::Error| format!("{}: {e}", dir.display());
    for entry in fs::read_dir(&dir).map_err(show)? {
        let entry = entry.map_err(show)?;
        let file = inner.join(entry.file_name());
        if entry.file_type().map_err(show)?.is_dir() {
            remove_unlisted(root, &file, files)?;
        } else if !files.contains(&file) {
            fs::remove_file(entry.path()).map_err(show)?;
        }
    }
    Ok(())
}

fn create_dir(dir: &Path) -> Result<(), String> {
    fs::create_dir_all(dir).map_err(|e| format!("cannot create {}: {e}", dir.display()))
}
