//! A litmus test file: its header, and the rules that all files keep.
//!
//! A file begins with `C NAME`, where NAME is the file's name without its extension, and a comment
//! with these lines in it:
//!
//! - `Result: Never` (or `Sometimes`, `Always`): what herd7 must answer for the `exists` clause.
//! - `Model: RC11` if the test is written for the C11 model; the kernel's model is the default.
//! - `Broken: ...` in a broken twin: the one thing that is different from the test that it breaks.
//!
//! # Invariants
//!
//! - I1. Every test whose result is `Never` has a broken twin, `NAME-broken-WHAT`. A test that cannot
//!   fail proves nothing; the twin proves that it can.
//! - I2. A twin has a `Broken:` line, its result is not `Never`, and the test that it breaks exists.
//! - I3. A twin asks exactly the question of the test that it breaks: the same model and the same
//!   `exists` clause, of other code.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// What separates the name of a test from what its twin breaks.
const TWIN: &str = "-broken-";

/// What herd7 answers for the `exists` clause of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observation {
    /// No execution satisfies the clause.
    Never,
    /// Some executions satisfy the clause, and some do not.
    Sometimes,
    /// Every execution satisfies the clause.
    Always,
}

impl Observation {
    /// Reads the word that stands for the observation, in files as in herd7's answer.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "Never" => Some(Self::Never),
            "Sometimes" => Some(Self::Sometimes),
            "Always" => Some(Self::Always),
            _ => None,
        }
    }
}

impl fmt::Display for Observation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `pad` rather than `write!`, so that the report can align its columns.
        f.pad(match self {
            Self::Never => "Never",
            Self::Sometimes => "Sometimes",
            Self::Always => "Always",
        })
    }
}

/// The memory model that a test is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// The Linux kernel's memory model, which comes with the kernel's sources.
    Lkmm,
    /// The repaired C11 model, which comes with herd7.
    Rc11,
}

/// One litmus test, as far as its file says something about itself.
#[derive(Debug, Clone)]
pub struct Litmus {
    /// The name of the test, and of its file without the extension.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// What herd7 must answer.
    pub result: Observation,
    /// The model that herd7 must use.
    pub model: Model,
    /// Whether the header has a `Broken:` line with something in it.
    says_what_is_broken: bool,
    /// Everything between the header and the `exists` clause, with single spaces.
    body: String,
    /// The `exists` clause, with single spaces.
    exists: String,
}

impl Litmus {
    /// Reads the text of the file at `path`. The error is one line, without the file's name.
    pub fn parse(path: &Path, text: &str) -> Result<Self, String> {
        let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or("");
        let name = match text.lines().next().and_then(|line| line.strip_prefix("C ")) {
            Some(name) if name.trim() == stem => stem.to_owned(),
            Some(name) => return Err(format!("the first line names `{}`", name.trim())),
            None => return Err("the first line must be `C NAME`".to_owned()),
        };
        let (header, rest) = text
            .split_once("(*")
            .and_then(|(_, rest)| rest.split_once("*)"))
            .ok_or("no comment `(* ... *)` after the name")?;
        let field = |key: &str| {
            let mut values = header.lines().filter_map(|line| {
                let line = line.trim().trim_start_matches('*').trim_start();
                line.strip_prefix(key)?.strip_prefix(':').map(str::trim)
            });
            match (values.next(), values.next()) {
                (value, None) => Ok(value),
                (_, Some(_)) => Err(format!("more than one `{key}:` line")),
            }
        };
        let result = field("Result")?.ok_or("no `Result:` line")?;
        let result = Observation::from_word(result)
            .ok_or_else(|| format!("`Result: {result}` is not Never, Sometimes or Always"))?;
        let model = match field("Model")? {
            None | Some("LKMM") => Model::Lkmm,
            Some("RC11") => Model::Rc11,
            Some(other) => return Err(format!("`Model: {other}` is not LKMM or RC11")),
        };
        let says_what_is_broken = field("Broken")?.is_some_and(|what| !what.is_empty());
        let at = rest.rfind("\nexists").ok_or("no `exists` clause")?;
        let (body, exists) = rest.split_at(at);
        Ok(Self {
            name,
            path: path.to_owned(),
            result,
            model,
            says_what_is_broken,
            body: single_spaced(body),
            exists: single_spaced(exists),
        })
    }

    /// For a broken twin, the name of the test that it breaks and what it breaks in it.
    pub fn twin_of(&self) -> Option<(&str, &str)> {
        self.name.split_once(TWIN)
    }
}

fn single_spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Reads all litmus tests in `dir`, sorted by name. The second part lists the files that could not
/// be read as one.
pub fn read_folder(dir: &Path) -> Result<(Vec<Litmus>, Vec<String>), String> {
    let show = |e: std::io::Error| format!("{}: {e}", dir.display());
    let mut tests = Vec::new();
    let mut problems = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(show)? {
        let path = entry.map_err(show)?.path();
        if path.extension().is_none_or(|ext| ext != "litmus") {
            continue;
        }
        let parsed = std::fs::read_to_string(&path)
            .map_err(|e| e.to_string())
            .and_then(|text| Litmus::parse(&path, &text));
        match parsed {
            Ok(test) => tests.push(test),
            Err(problem) => {
                let file = path.file_name().unwrap_or_default().to_string_lossy();
                problems.push(format!("{file}: {problem}"));
            }
        }
    }
    tests.sort_by(|a, b| a.name.cmp(&b.name));
    problems.sort();
    Ok((tests, problems))
}

/// Checks the invariants of the module documentation; returns one line for each that is broken.
pub fn check_rules(tests: &[Litmus]) -> Vec<String> {
    let by_name: BTreeMap<&str, &Litmus> = tests.iter().map(|t| (t.name.as_str(), t)).collect();
    let mut problems = Vec::new();
    for test in tests {
        let name = &test.name;
        let mut bad = |what: String| problems.push(format!("{name}: {what}"));
        match test.twin_of() {
            None => {
                let has_twin = tests
                    .iter()
                    .any(|t| t.twin_of().is_some_and(|(base, _)| base == name));
                if test.result == Observation::Never && !has_twin {
                    bad(format!(
                        "Never, but no twin `{name}{TWIN}WHAT` shows that it can fail"
                    ));
                }
                if test.says_what_is_broken {
                    bad(format!("a `Broken:` line, but no `{TWIN}` in its name"));
                }
            }
            Some((base, _)) => {
                if test.result == Observation::Never {
                    bad("a broken twin must not be Never".to_owned());
                }
                if !test.says_what_is_broken {
                    bad("a broken twin needs a `Broken:` line that names the one thing".to_owned());
                }
                let Some(base) = by_name.get(base) else {
                    bad(format!("there is no test `{base}` that it breaks"));
                    continue;
                };
                if base.model != test.model || base.exists != test.exists {
                    bad(format!(
                        "its model or its `exists` clause is not that of {}",
                        base.name
                    ));
                }
                if base.body == test.body {
                    bad(format!("it is the same code as {}", base.name));
                }
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, header: &str, body: &str, exists: &str) -> Litmus {
        let text = format!("C {name}\n\n(*\n{header}\n *)\n\n{body}\n\nexists {exists}\n");
        Litmus::parse(&PathBuf::from(format!("{name}.litmus")), &text).expect("a good file")
    }

    fn error(text: &str) -> String {
        Litmus::parse(Path::new("t.litmus"), text).expect_err("a bad file")
    }

    #[test]
    fn header_is_read() {
        let t = file(
            "t",
            " * Result: Never\n * Model: RC11\n * Text.",
            "{ }",
            "(x=1)",
        );
        assert_eq!((t.result, t.model), (Observation::Never, Model::Rc11));
        assert_eq!(t.twin_of(), None);
        let t = file(
            "t-broken-a-b",
            " * Result: Sometimes\n * Broken: all.",
            "{ }",
            "(x=1)",
        );
        assert_eq!((t.result, t.model), (Observation::Sometimes, Model::Lkmm));
        assert_eq!(t.twin_of(), Some(("t", "a-b")));
    }

    #[test]
    fn bad_files_are_refused() {
        let end = "{ }\nexists (x=1)\n";
        assert!(error("").contains("first line"));
        assert!(error(&format!("C other\n(* Result: Never *)\n{end}")).contains("`other`"));
        assert!(error(&format!("C t\n{end}")).contains("no comment"));
        assert!(error(&format!("C t\n(*\n * text\n *)\n{end}")).contains("no `Result:`"));
        assert!(error(&format!("C t\n(*\n * Result: Maybe\n *)\n{end}")).contains("Maybe"));
        let twice = format!("C t\n(*\n * Result: Never\n * Result: Never\n *)\n{end}");
        assert!(error(&twice).contains("more than one"));
        let model = format!("C t\n(*\n * Result: Never\n * Model: SC\n *)\n{end}");
        assert!(error(&model).contains("`Model: SC`"));
        assert!(error("C t\n(*\n * Result: Never\n *)\n{ }\n").contains("no `exists`"));
    }

    #[test]
    fn never_needs_a_twin() {
        let base = file("t", " * Result: Never", "a", "(x=1)");
        assert_eq!(check_rules(std::slice::from_ref(&base)).len(), 1);
        let twin = file(
            "t-broken-it",
            " * Result: Sometimes\n * Broken: it.",
            "b",
            "(x=1)",
        );
        assert_eq!(check_rules(&[base, twin]), Vec::<String>::new());
        let free = file("free", " * Result: Sometimes", "a", "(x=1)");
        assert_eq!(check_rules(&[free]), Vec::<String>::new());
    }

    #[test]
    fn twin_must_be_honest() {
        let base = || file("t", " * Result: Never", "a", "(x=1)");
        let problems = |twin: Litmus| check_rules(&[base(), twin]).join("\n");
        let header = " * Result: Sometimes\n * Broken: it.";
        let name = "t-broken-it";
        assert!(
            problems(file(name, " * Result: Never\n * Broken: it.", "b", "(x=1)"))
                .contains("must not be Never")
        );
        assert!(
            problems(file(name, " * Result: Sometimes", "b", "(x=1)")).contains("`Broken:` line")
        );
        assert!(problems(file(name, header, "b", "(x=2)")).contains("`exists` clause"));
        assert!(problems(file(name, header, "a", "( x=1)")).contains("`exists` clause"));
        assert!(problems(file(name, header, " a ", "(x=1)")).contains("same code"));
        assert!(problems(file("u-broken-it", header, "b", "(x=1)")).contains("no test `u`"));
        assert!(problems(file("other", header, "b", "(x=1)")).contains("no `-broken-`"));
    }
}
