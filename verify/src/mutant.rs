//! A mutant file: its format, and what it does to a source text.
//!
//! A mutant breaks the code in one place and names the test that must notice. Its file is
//! `verify/mutants/NAME.mutant`:
//!
//! ```text
//! # why: One sentence or more: what is broken, and what would go wrong.
//! # It may go on, on lines that begin with `#`.
//! file: crates/frame/src/refcount.rs
//! test: -p pagewell-frame --lib three_parties
//! loom: yes
//! preemptions: 3
//! limit: 60
//! hang: ok
//! <<<<
//! the text to find, which occurs exactly once in the file
//! ====
//! the text to put in its place, which may be empty
//! >>>>
//! ```
//!
//! `loom`, `preemptions`, `limit` and `hang` are optional. Neither text includes the line break
//! before the marker that ends it, so a single line may also be found in the middle of a longer one.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// How long the test of a mutant may take if the file does not say.
const DEFAULT_LIMIT: Duration = Duration::from_secs(300);

/// The test that must notice a mutant. Mutants that name the same test share its unmutated run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// The arguments of `cargo test`.
    pub args: Vec<String>,
    /// Whether it is built and run with loom's atomics.
    pub build: Build,
    /// `LOOM_MAX_PREEMPTIONS` for the test, if the mutant sets it.
    pub preemptions: Option<u32>,
}

/// How the test is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Build {
    /// With the atomics of the standard library, in the profile of tests.
    Std,
    /// With `--cfg loom`, in the profile `loom` of the workspace `models`.
    Loom,
}

/// What a test that does not end within its limit means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hang {
    /// It has noticed the mutant: the mutant is one that makes something wait for ever.
    Counts,
    /// It has not.
    Fails,
}

/// One mutant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutant {
    /// The name of its file, without the extension.
    pub name: String,
    /// What is broken, and what would go wrong.
    pub why: String,
    /// The file that it breaks, from the root of the workspace.
    pub file: PathBuf,
    /// The test that must notice.
    pub target: Target,
    /// How long the test may run.
    pub limit: Duration,
    /// What it means if the test does not end.
    pub hang: Hang,
    find: String,
    replace: String,
}

impl Mutant {
    /// Reads the text of a mutant file. The error is one line, without the file's name.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        let mut why: Vec<&str> = Vec::new();
        let mut fields: BTreeMap<&str, &str> = BTreeMap::new();
        // Phase 1: the header, up to the opening marker.
        loop {
            let line = lines.next().ok_or("no `<<<<` line")?.trim_end();
            if line == "<<<<" {
                break;
            } else if let Some(comment) = line.strip_prefix('#') {
                let comment = comment.trim();
                match comment.strip_prefix("why:") {
                    Some(first) if why.is_empty() => why.push(first.trim()),
                    Some(_) => return Err("more than one `# why:` line".to_owned()),
                    None if why.is_empty() => {
                        return Err("the first comment must be `# why: ...`".to_owned());
                    }
                    None => why.push(comment),
                }
            } else if !line.trim().is_empty() {
                let (key, value) = line
                    .split_once(':')
                    .ok_or_else(|| format!("neither `key: value` nor `<<<<`: {line}"))?;
                if fields.insert(key.trim(), value.trim()).is_some() {
                    return Err(format!("more than one `{}:` line", key.trim()));
                }
            }
        }
        // Phase 2: the two texts, and nothing after them.
        let find = block(&mut lines, "====")?;
        let replace = block(&mut lines, ">>>>")?;
        if let Some(line) = lines.find(|line| !line.trim().is_empty()) {
            return Err(format!("text after `>>>>`: {line}"));
        }
        if find.trim().is_empty() {
            return Err("the text to find is empty".to_owned());
        }
        if find == replace {
            return Err("the two texts are equal".to_owned());
        }
        // Phase 3: what the header means.
        let why = why.join(" ").trim().to_owned();
        if why.is_empty() {
            return Err("no `# why: ...` line".to_owned());
        }
        let mut take = |key: &str| fields.remove(key);
        let file = take("file").ok_or("no `file:` line")?;
        let file = PathBuf::from(file);
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        if file.as_os_str().is_empty() || !file.components().all(plain) {
            return Err(format!(
                "`file: {}` must lead down from the root",
                file.display()
            ));
        }
        let args: Vec<String> = take("test")
            .ok_or("no `test:` line")?
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        if args.is_empty() {
            return Err("the `test:` line is empty".to_owned());
        }
        let build = match take("loom") {
            None | Some("no") => Build::Std,
            Some("yes") => Build::Loom,
            Some(other) => return Err(format!("`loom: {other}` is not yes or no")),
        };
        let preemptions = match take("preemptions") {
            None => None,
            Some(_) if build == Build::Std => {
                return Err("`preemptions:` needs `loom: yes`".to_owned());
            }
            Some(n) => Some(number("preemptions", n)?),
        };
        let limit = match take("limit") {
            None => DEFAULT_LIMIT,
            Some(n) => Duration::from_secs(number("limit", n)?.into()),
        };
        let hang = match take("hang") {
            None => Hang::Fails,
            Some("ok") => Hang::Counts,
            Some(other) => return Err(format!("`hang: {other}` can only be ok")),
        };
        if let Some(key) = fields.keys().next() {
            return Err(format!("`{key}:` is not known"));
        }
        Ok(Self {
            name: name.to_owned(),
            why,
            file,
            target: Target {
                args,
                build,
                preemptions,
            },
            limit,
            hang,
            find,
            replace,
        })
    }

    /// The broken text of the file whose text is `source`. It is an error if the text to find is not
    /// in it exactly once: the code has changed and the mutant with it.
    pub fn apply(&self, source: &str) -> Result<String, String> {
        let file = self.file.display();
        match source.matches(&self.find).count() {
            1 => Ok(source.replacen(&self.find, &self.replace, 1)),
            0 => Err(format!("the text to find is not in {file}")),
            n => Err(format!("the text to find is {n} times in {file}")),
        }
    }
}

/// The lines up to the marker `end`, without the line break before it.
fn block<'a>(lines: &mut impl Iterator<Item = &'a str>, end: &str) -> Result<String, String> {
    let mut text: Vec<&str> = Vec::new();
    for line in lines {
        if line.trim_end() == end {
            return Ok(text.join("\n"));
        }
        text.push(line);
    }
    Err(format!("no `{end}` line"))
}

fn number(key: &str, text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err(format!("`{key}: {text}` is not a number above 0")),
    }
}

/// Reads all mutants in `dir`, sorted by name. The second part lists the files that could not be
/// read as one. A folder that is not there holds none.
pub fn read_folder(dir: &Path) -> Result<(Vec<Mutant>, Vec<String>), String> {
    let show = |e: std::io::Error| format!("{}: {e}", dir.display());
    let mut mutants = Vec::new();
    let mut problems = Vec::new();
    if !dir.exists() {
        return Ok((mutants, problems));
    }
    for entry in std::fs::read_dir(dir).map_err(show)? {
        let path = entry.map_err(show)?.path();
        if path.extension().is_none_or(|ext| ext != "mutant") {
            continue;
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let parsed = std::fs::read_to_string(&path)
            .map_err(|e| e.to_string())
            .and_then(|text| Mutant::parse(&name, &text));
        match parsed {
            Ok(mutant) => mutants.push(mutant),
            Err(problem) => problems.push(format!("{name}.mutant: {problem}")),
        }
    }
    mutants.sort_by(|a, b| a.name.cmp(&b.name));
    problems.sort();
    Ok((mutants, problems))
}

/// Checks that each mutant applies to the sources under `root`; returns one line for each that does
/// not.
pub fn check_all_apply(root: &Path, mutants: &[Mutant]) -> Vec<String> {
    let check = |mutant: &Mutant| {
        let text = std::fs::read_to_string(root.join(&mutant.file))
            .map_err(|e| format!("cannot read {}: {e}", mutant.file.display()))?;
        mutant.apply(&text).map(drop)
    };
    mutants
        .iter()
        .filter_map(|m| {
            check(m)
                .err()
                .map(|problem| format!("{}: {problem}", m.name))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "# why: It breaks.\nfile: a/b.rs\ntest: -p x y\n";
    const BLOCK: &str = "<<<<\nold\n====\nnew\n>>>>\n";

    fn parse(header: &str, rest: &str) -> Result<Mutant, String> {
        Mutant::parse("m", &format!("{header}{rest}"))
    }

    #[test]
    fn full_file_is_read() {
        let header = "# why: It breaks,\n#  badly.\n\nfile: a/b.rs\ntest:  -p x --lib y -- --exact\n\
            loom: yes\npreemptions: 2\nlimit: 7\nhang: ok\n";
        let rest = "<<<<\n\ttwo\n\tlines\n====\n>>>>\n\n";
        let mutant = parse(header, rest).expect("a good file");
        let args = ["-p", "x", "--lib", "y", "--", "--exact"]
            .map(str::to_owned)
            .to_vec();
        let expected = Mutant {
            name: "m".to_owned(),
            why: "It breaks, badly.".to_owned(),
            file: PathBuf::from("a/b.rs"),
            target: Target {
                args,
                build: Build::Loom,
                preemptions: Some(2),
            },
            limit: Duration::from_secs(7),
            hang: Hang::Counts,
            find: "\ttwo\n\tlines".to_owned(),
            replace: String::new(),
        };
        assert_eq!(mutant, expected);
    }

    #[test]
    fn optional_lines_have_defaults() {
        let mutant = parse(HEADER, BLOCK).expect("a good file");
        assert_eq!(mutant.target.build, Build::Std);
        assert_eq!(mutant.target.preemptions, None);
        assert_eq!(mutant.limit, DEFAULT_LIMIT);
        assert_eq!(mutant.hang, Hang::Fails);
    }

    #[test]
    fn bad_files_are_refused() {
        let error = |header: &str, rest: &str| parse(header, rest).expect_err("a bad file");
        assert!(error(HEADER, "").contains("no `<<<<`"));
        assert!(error(HEADER, "<<<<\nold\n").contains("no `====`"));
        assert!(error(HEADER, "<<<<\nold\n====\nnew\n").contains("no `>>>>`"));
        assert!(error(HEADER, &format!("{BLOCK}{BLOCK}")).contains("text after"));
        assert!(error(HEADER, "<<<<\n\n====\nnew\n>>>>\n").contains("to find is empty"));
        assert!(error(HEADER, "<<<<\nold\n====\nold\n>>>>\n").contains("are equal"));
        assert!(error("file: a\ntest: x\n", BLOCK).contains("no `# why"));
        assert!(error("# note\n", BLOCK).contains("first comment"));
        assert!(error("# why: a\n# why: b\n", BLOCK).contains("more than one"));
        assert!(error("# why: a\ntest: x\n", BLOCK).contains("no `file:`"));
        assert!(error("# why: a\nfile: a\n", BLOCK).contains("no `test:`"));
        assert!(error("# why: a\nfile: a\ntest:\n", BLOCK).contains("is empty"));
        assert!(error("# why: a\nfile: ../a\ntest: x\n", BLOCK).contains("from the root"));
        assert!(error("# why: a\nfile: /a\ntest: x\n", BLOCK).contains("from the root"));
        let with = |line: &str| error(&format!("{HEADER}{line}\n"), BLOCK);
        assert!(with("loom: maybe").contains("yes or no"));
        assert!(with("preemptions: 2").contains("needs `loom: yes`"));
        assert!(with("loom: yes\npreemptions: two").contains("not a number"));
        assert!(with("limit: 0").contains("above 0"));
        assert!(with("hang: no").contains("only be ok"));
        assert!(with("colour: red").contains("not known"));
        assert!(with("test: again").contains("more than one"));
        assert!(with("what is this").contains("neither"));
    }

    #[test]
    fn text_must_be_found_exactly_once() {
        let mutant = parse(HEADER, BLOCK).expect("a good file");
        assert_eq!(mutant.apply("an old one\n"), Ok("an new one\n".to_owned()));
        assert!(
            mutant
                .apply("none")
                .is_err_and(|e| e.contains("not in a/b.rs"))
        );
        assert!(
            mutant
                .apply("old, old")
                .is_err_and(|e| e.contains("2 times"))
        );
    }
}
