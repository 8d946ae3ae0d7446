//! The mutants of the project, and the runner on a workspace made for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pagewell_verify::hunt::{self, Depth, Options, Part};
use pagewell_verify::tree::Tree;
use pagewell_verify::{Ended, Trouble};

/// A crate with two tests: one that notices when `add` is wrong, and one that notices nothing.
const CODE: &str = "\
//! A crate to be broken.

/// Adds.
pub fn add(a: u32, b: u32) -> u32 {
    a + b
}

#[cfg(test)]
mod tests {
    #[test]
    fn adds() {
        assert_eq!(super::add(2, 3), 5);
    }

    #[test]
    fn looks_away() {
        let _ = super::add(2, 3);
    }

    #[test]
    fn fails() {
        assert_eq!(super::add(2, 3), 6);
    }
}
";

/// Whether git is installed, by which the runner lists the files to copy.
fn has_git() -> bool {
    let has = match Command::new("git").arg("--version").output() {
        Ok(output) => output.status.success(),
        Err(_) => false,
    };
    if !has {
        pagewell_testkit::skip::skipped("git is not installed");
    }
    has
}

/// A workspace in a git repository, with its own scratch and mutant folders beside it.
struct Fixture {
    dir: PathBuf,
}

impl Fixture {
    /// None where there is no git.
    fn new(name: &str) -> Option<Self> {
        if !has_git() {
            return None;
        }
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&dir);
        let fixture = Self { dir };
        fixture.write("root/src/lib.rs", CODE);
        fixture.write(
            "root/Cargo.toml",
            "[package]\nname = \"victim\"\nedition = \"2024\"\n\n[workspace]\nexclude = [\"models\"]\n",
        );
        fixture.write(
            "root/models/Cargo.toml",
            "[package]\nname = \"victim\"\nedition = \"2024\"\n\n[lib]\npath = \"../src/lib.rs\"\n\n\
             [workspace]\n\n[profile.loom]\ninherits = \"test\"\n",
        );
        fixture.write("root/.gitignore", "/ignored\n/target\n");
        let status = Command::new("git")
            .args(["init", "--quiet"])
            .current_dir(fixture.path("root"))
            .status()
            .expect("git");
        assert!(status.success());
        Some(fixture)
    }

    fn path(&self, inner: &str) -> PathBuf {
        self.dir.join(inner)
    }

    fn write(&self, inner: &str, text: &str) {
        let path = self.path(inner);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("written");
    }

    fn mutant(&self, name: &str, header: &str, find: &str, replace: &str) {
        let text = format!(
            "# why: It adds wrongly.\nfile: src/lib.rs\n{header}\n<<<<\n{find}\n====\n{replace}\n>>>>\n"
        );
        self.write(&format!("mutants/{name}.mutant"), &text);
    }

    fn run(&self, depth: Depth, names: &[&str]) -> (Result<Ended, Trouble>, String) {
        let options = Options {
            root: self.path("root"),
            mutants: self.path("mutants"),
            scratch: self.path("scratch"),
            names: names.iter().map(|n| (*n).to_owned()).collect(),
            depth,
            jobs: 2,
            part: Part::ALL,
        };
        let mut report = Vec::new();
        let ended = hunt::run(&options, &mut report);
        (ended, String::from_utf8(report).expect("text"))
    }
}

#[test]
fn project_mutants_apply_to_the_code() {
    let verify = Path::new(env!("CARGO_MANIFEST_DIR"));
    let options = Options {
        root: verify.join(".."),
        mutants: verify.join("mutants"),
        scratch: PathBuf::new(),
        names: Vec::new(),
        depth: Depth::Apply,
        jobs: 1,
        part: Part::ALL,
    };
    let mut report = Vec::new();
    let ended = hunt::run(&options, &mut report);
    assert_eq!(
        ended,
        Ok(Ended::Well),
        "\n{}",
        String::from_utf8_lossy(&report)
    );
}

#[test]
fn each_kind_of_mutant_gets_its_verdict() {
    let Some(fixture) = Fixture::new("verdicts") else {
        return;
    };
    fixture.mutant("caught", "test: adds", "a + b", "a - b.min(a)");
    fixture.mutant(
        "spins",
        "test: adds\nlimit: 3\nhang: ok",
        "    a + b",
        "    loop {}",
    );
    fixture.mutant("survivor", "test: looks_away", "a + b", "a * b");
    fixture.mutant(
        "stuck",
        "test: looks_away\nlimit: 3",
        "    a + b",
        "    loop {}",
    );
    fixture.mutant("garbled", "test: adds", "a + b", "a +");
    fixture.mutant("nameless", "test: no_such_test", "a + b", "a * b");
    fixture.mutant("red", "test: tests::fails", "a + b", "a * b");
    fixture.mutant(
        "loom",
        "test: adds\nloom: yes\npreemptions: 2",
        "a + b",
        "a + b + u32::from(cfg!(loom))",
    );
    let (ended, report) = fixture.run(Depth::Test, &[]);
    assert_eq!(ended, Ok(Ended::Failed), "\n{report}");
    let verdict = |name: &str| {
        let line = report.lines().find(|l| {
            let last = l.split(" s  ").nth(1).unwrap_or_default();
            last == name || last.starts_with(&format!("{name}:"))
        });
        line.and_then(|l| l.split_whitespace().next())
            .unwrap_or("none")
            .to_owned()
    };
    for (name, expected) in [
        ("caught", "caught"),
        ("spins", "caught"),
        ("loom", "caught"),
        ("survivor", "SURVIVED"),
        ("stuck", "SURVIVED"),
        ("garbled", "UNUSABLE"),
        ("nameless", "UNUSABLE"),
        ("red", "UNUSABLE"),
    ] {
        assert_eq!(verdict(name), expected, "{name}\n{report}");
    }
    assert!(
        report.ends_with("3 mutants caught, 2 survived, 3 unusable\n"),
        "{report}"
    );
    // The scratch tree is as it was, and the sources were never touched.
    for tree in ["root", "scratch/0/tree", "scratch/1/tree"] {
        let text = fs::read_to_string(fixture.path(tree).join("src/lib.rs")).expect("the file");
        assert_eq!(text, CODE);
    }
    // A run of what is caught alone ends well, after a run that left artefacts of other mutants.
    let (ended, report) = fixture.run(Depth::Test, &["caught"]);
    assert_eq!(ended, Ok(Ended::Well), "\n{report}");
}

#[test]
fn mutant_that_does_not_apply_stops_the_run() {
    let Some(fixture) = Fixture::new("stale") else {
        return;
    };
    fixture.mutant("stale", "test: adds", "a - b", "a + b");
    fixture.mutant("twice", "test: adds", "add(2, 3)", "add(3, 2)");
    fixture.write(
        "mutants/torn.mutant",
        "# why: It is cut off.\nfile: src/lib.rs\n",
    );
    let (ended, report) = fixture.run(Depth::Apply, &[]);
    assert_eq!(ended, Ok(Ended::Failed));
    assert!(
        report.contains("stale: the text to find is not in src/lib.rs"),
        "{report}"
    );
    assert!(
        report.contains("twice: the text to find is 3 times in src/lib.rs"),
        "{report}"
    );
    assert!(report.contains("torn.mutant: no `<<<<` line"), "{report}");
    assert!(matches!(
        fixture.run(Depth::Apply, &["other"]).0,
        Err(Trouble::Usage(_))
    ));
    assert!(matches!(
        fixture.run(Depth::Apply, &["torn"]).0,
        Err(Trouble::Broken(_))
    ));
}

#[test]
fn scratch_tree_follows_the_workspace() {
    let Some(fixture) = Fixture::new("follows") else {
        return;
    };
    let refresh =
        || Tree::refresh(&fixture.path("root"), &fixture.path("scratch")).expect("a tree");
    fixture.write("root/src/extra.rs", "// More.\n");
    fixture.write("root/ignored/file", "not copied");
    let tree = refresh();
    assert_eq!(
        tree.read(Path::new("src/extra.rs")).as_deref(),
        Ok("// More.\n")
    );
    assert!(tree.read(Path::new("ignored/file")).is_err());

    let written = || {
        let meta = fs::metadata(fixture.path("scratch/tree/src/lib.rs"));
        meta.and_then(|m| m.modified()).expect("a time")
    };
    let before = written();
    fs::remove_file(fixture.path("root/src/extra.rs")).expect("removed");
    tree.write(Path::new("Cargo.toml"), "left by a mutant")
        .expect("written");
    let tree = refresh();
    assert!(tree.read(Path::new("src/extra.rs")).is_err());
    assert!(
        tree.read(Path::new("Cargo.toml"))
            .is_ok_and(|text| text.contains("victim"))
    );
    assert_eq!(
        written(),
        before,
        "a file that did not change was written again"
    );
}
