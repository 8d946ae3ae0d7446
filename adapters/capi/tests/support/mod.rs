//! Compilers, tools, and the libraries that C programs are linked to.

#![allow(dead_code, unreachable_pub)] // Each test file uses some of it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The folder of this adapter.
pub fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Whether a program can be started.
pub fn have(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}

/// Says that a part of a test was not run, and why.
pub fn skipped(why: &str) {
    println!("skipped: {why}");
    eprintln!("skipped: {why}");
}

/// Runs a command; if it fails, so does the test, with what it has said.
pub fn run(command: &mut Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// The folder of `libpagewell.so` and `.a`, built as `arguments` say, in a target folder called so.
fn built(name: &str, arguments: &[&str]) -> PathBuf {
    let target = here().join("target").join(name);
    let mut command = Command::new(env!("CARGO"));
    command
        .current_dir(here())
        .args(["build", "--locked", "--lib", "--target-dir"])
        .arg(&target)
        .args(arguments);
    run(&mut command);
    target.join("debug")
}

/// The libraries as they are.
pub fn libraries() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    // In the folder of these tests, and with a test, so that dependencies have the same features: then most of it is built already.
    BUILT.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .parent()
            .expect("the target folder");
        let mut command = Command::new(env!("CARGO"));
        command
            .current_dir(here())
            .args(["build", "--locked", "--lib", "--test", "programs"])
            .arg("--target-dir")
            .arg(target);
        run(&mut command);
        target.join("debug")
    })
}

/// The libraries with panics that tests can ask for.
pub fn libraries_that_panic() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| built("panics", &["--features", "test-panics"]))
}

/// The libraries, compiled with AddressSanitizer by a nightly compiler; or why there are none.
pub fn libraries_with_address_sanitizer() -> Result<&'static Path, &'static str> {
    const TRIPLE: &str = "x86_64-unknown-linux-gnu";
    static BUILT: OnceLock<Result<PathBuf, &'static str>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        if !cfg!(all(target_arch = "x86_64", target_env = "gnu")) {
            return Err("the sanitizer is asked for on x86-64 with glibc only");
        }
        let cargo = || {
            let mut command = Command::new("rustup");
            // As the one that runs this test has set them.
            command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
            command.args(["run", "nightly", "cargo"]);
            command
        };
        let version = cargo().arg("--version").output();
        if !version.is_ok_and(|output| output.status.success()) {
            return Err("there is no nightly toolchain, which -Zsanitizer needs");
        }
        let target = here().join("target/asan");
        run(cargo()
            .current_dir(here())
            .env("RUSTFLAGS", "-Zsanitizer=address")
            .args(["build", "--locked", "--lib", "--target", TRIPLE])
            .arg("--target-dir")
            .arg(&target));
        Ok(target.join(TRIPLE).join("debug"))
    });
    built.as_deref().map_err(|why| *why)
}

/// A compiler, and the language that it is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Compiler {
    pub program: &'static str,
    pub standard: &'static str,
}

pub const C: [Compiler; 2] = [
    Compiler {
        program: "gcc",
        standard: "c11",
    },
    Compiler {
        program: "clang",
        standard: "c11",
    },
];
pub const CXX: [Compiler; 2] = [
    Compiler {
        program: "g++",
        standard: "c++17",
    },
    Compiler {
        program: "clang++",
        standard: "c++17",
    },
];

/// Those of `compilers` that there are; the others are said to be missing.
pub fn present(compilers: &[Compiler]) -> Vec<Compiler> {
    let (there, missing): (Vec<Compiler>, Vec<Compiler>) = compilers
        .iter()
        .copied()
        .partition(|compiler: &Compiler| have(compiler.program));
    for compiler in missing {
        skipped(&format!("{} is not installed", compiler.program));
    }
    there
}

/// Compiles `source` with all warnings as errors, and links it to `libpagewell.so` in `libraries`.
pub fn compile(compiler: Compiler, source: &Path, libraries: &Path, more: &[&str], out: &Path) {
    run(Command::new(compiler.program)
        .arg(format!("-std={}", compiler.standard))
        // POSIX too: threads, `fork`.
        .args([
            "-D_GNU_SOURCE",
            "-g",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pthread",
        ])
        .args(more)
        .arg("-I")
        .arg(here().join("include"))
        .arg(source)
        .arg("-L")
        .arg(libraries)
        .arg("-lpagewell")
        .arg(format!("-Wl,-rpath,{}", libraries.display()))
        .arg("-o")
        .arg(out));
}

/// The sources of the tests in C.
pub fn test_source(name: &str) -> PathBuf {
    here().join("tests/c").join(name)
}

/// A new folder for a program's files.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// A command of a program of ours, maybe by way of another (`around`).
pub fn command(around: &[&str], program: &Path, arguments: &[&OsStr]) -> Command {
    let mut command = match around {
        [] => Command::new(program),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    };
    // Cargo's, in which another build of the library may lie.
    command.args(arguments).env_remove("LD_LIBRARY_PATH");
    command
}
