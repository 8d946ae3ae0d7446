//! What a program that depends on the library gets into its lock file: what is compiled, and nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The library's packages, and what they depend on: eleven, of which three are io_uring (docs/adr/0030-engines.md).
const EXPECTED: [&str; 11] = [
    "bitflags",
    "cfg-if",
    "io-uring",
    "libc",
    "pagewell",
    "pagewell-cache",
    "pagewell-frame",
    "pagewell-io",
    "pagewell-policy",
    "pagewell-space",
    "pagewell-sync",
];

/// The standard output of `cargo` with these arguments, in `dir`. None, and said, where what the packages need cannot be looked up without
/// the network: their sources were put here by other means.
fn cargo(dir: &Path, arguments: &[&str]) -> Option<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(arguments)
        // What the packages need is here: they are being tested.
        .arg("--offline")
        .current_dir(dir)
        .output()
        .expect("cargo");
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("you're using offline mode") {
        println!("skipped: the registry's index is not here");
        return None;
    }
    assert!(output.status.success(), "cargo {arguments:?}: {errors}");
    Some(String::from_utf8(output.stdout).expect("text"))
}

/// A package that depends on the library, with these features of it.
fn dependent(features: &str) -> tempfile::TempDir {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let dir = pagewell_testkit::scratch::dir();
    let library = root.join("crates/pagewell");
    let manifest = format!(
        "[package]\nname = \"program\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\npagewell = {{ path = {library:?}, features = [{features}] }}\n"
    );
    fs::write(dir.path().join("Cargo.toml"), manifest).expect("written");
    fs::create_dir(dir.path().join("src")).expect("a folder");
    fs::write(dir.path().join("src/lib.rs"), "").expect("written");
    // The same versions; what is not needed is removed.
    fs::copy(root.join("Cargo.lock"), dir.path().join("Cargo.lock")).expect("copied");
    dir
}

/// Each user's lock file had 46 packages, of which seven were compiled: the crates named the model checker that their models run
/// under, for a configuration that only models have.
#[test]
fn a_programs_lock_file_has_what_is_compiled() {
    for features in ["", "\"baselines\""] {
        let program = dependent(features);
        let Some(compiled) = cargo(
            program.path(),
            &[
                "tree", "--edges", "normal", "--prefix", "none", "--format", "{p}",
            ],
        ) else {
            return;
        };
        let compiled: BTreeSet<&str> = compiled
            .lines()
            .filter_map(|line| line.split(' ').next())
            .filter(|name| !name.is_empty() && *name != "program")
            .collect();
        assert_eq!(compiled, BTreeSet::from(EXPECTED), "compiled");
        let lock_file = fs::read_to_string(program.path().join("Cargo.lock")).expect("readable");
        let locked: BTreeSet<&str> = lock_file
            .lines()
            .filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
            .filter(|name| *name != "program")
            .collect();
        assert_eq!(locked, compiled, "in the lock file");
    }
}
