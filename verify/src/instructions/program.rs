//! The program that performs hits, built from a checkout.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::tree::Tree;

/// The example that performs hits.
const EXAMPLE: &str = "hit_instructions";

/// Where it is, from the root of a checkout on.
const SOURCE: &str = "crates/pagewell/examples/hit_instructions.rs";

/// Where a checkout has the variants of the copy, if it has any. The program is told then, and uses one of them in all its runs.
const VARIANTS: &str = "crates/sync/src/bytes/variant";

/// Where a checkout has views, if it has any. If not, the program is told.
const VIEWS: &str = "crates/cache/src/read/view.rs";

/// Where a checkout has tokens, if it has any; likewise.
const TOKENS: &str = "crates/cache/src/index/token.rs";

/// The program, built.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
}

impl Program {
    /// Builds that of the checkout at `root`, where it is.
    pub fn of_checkout(root: &Path) -> Result<Self, String> {
        build(root, None)
    }

    /// Builds that of `root` against the library of the checkout at `base`, in a copy of it in `scratch`: the same
    /// program, so that only the library differs.
    pub fn of_copy(base: &Path, root: &Path, scratch: &Path) -> Result<Self, String> {
        let source = fs::read_to_string(root.join(SOURCE))
            .map_err(|e| format!("cannot read {SOURCE}: {e}"))?;
        let tree = Tree::refresh(base, scratch)?;
        let folder = tree.root().join(SOURCE);
        let folder = folder.parent().unwrap_or(tree.root());
        fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        tree.write(Path::new(SOURCE), &source)?;
        build(tree.root(), Some(&scratch.join("build")))
    }

    /// The kinds of hits that it can perform.
    pub fn kinds(&self) -> Result<Vec<String>, String> {
        let output = Command::new(&self.path)
            .arg("--list")
            .output()
            .map_err(|e| format!("cannot run {}: {e}", self.path.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// The command that performs so many hits.
    pub fn hits(&self, kind: &str, count: u64) -> Command {
        let mut command = Command::new(&self.path);
        command.arg(kind).arg(count.to_string());
        command
    }
}

/// A message of cargo's, as far as it is of use.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
}

/// Builds the example of the workspace at `root`.
fn build(root: &Path, target: Option<&Path>) -> Result<Program, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["rustc", "--release", "--locked", "--package", "pagewell"])
        .args(["--example", EXAMPLE])
        .args(["--message-format", "json-render-diagnostics"])
        .current_dir(root)
        .stderr(Stdio::inherit());
    if let Some(target) = target {
        // The build runs in another folder than this process.
        let target =
            std::path::absolute(target).map_err(|e| format!("{}: {e}", target.display()))?;
        command.arg("--target-dir").arg(target);
    }
    // An older checkout does not know the name.
    command.args(["--", "--check-cfg", "cfg(pagewell_variants)"]);
    if root.join(VARIANTS).is_dir() {
        command.args(["--cfg", "pagewell_variants"]);
    }
    command.args(["--check-cfg", "cfg(pagewell_no_views)"]);
    if !root.join(VIEWS).is_file() {
        command.args(["--cfg", "pagewell_no_views"]);
    }
    command.args(["--check-cfg", "cfg(pagewell_no_tokens)"]);
    if !root.join(TOKENS).is_file() {
        command.args(["--cfg", "pagewell_no_tokens"]);
    }
    let output = command
        .output()
        .map_err(|e| format!("cannot run cargo: {e}"))?;
    if !output.status.success() {
        return Err(format!("{} does not build in {}", EXAMPLE, root.display()));
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Message>(line).ok())
        .find_map(|message| message.executable)
        .map(|path| Program { path })
        .ok_or_else(|| format!("cargo built no {EXAMPLE}"))
}
