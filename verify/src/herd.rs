//! herd7: where it is, how it is called, what it answers.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::litmus::{Litmus, Model, Observation};

/// How to get what is missing, for the message that says that something was skipped.
pub const GET_HERD7: &str =
    "no herd7 on PATH and HERD7 is not set (Debian package herdtools7, version 7.58 or later)";

/// As [`GET_HERD7`], for the kernel's memory model.
pub const GET_LKMM: &str = "no kernel memory model: set LKMM_DIR, or pass --lkmm DIR \
     (the folder tools/memory-model of the Linux sources)";

/// The file of the kernel's model that names all others.
const LKMM_CONFIG: &str = "linux-kernel.cfg";

/// A herd7 that can be called, and the models that it can be called with.
#[derive(Debug, Clone)]
pub struct Herd {
    program: PathBuf,
    /// The folder with the kernel's memory model, if there is one. The C11 model is herd7's own.
    lkmm: Option<PathBuf>,
}

impl Herd {
    /// The herd7 at `program`.
    pub fn new(program: PathBuf, lkmm: Option<PathBuf>) -> Self {
        Self { program, lkmm }
    }

    /// Whether tests for `model` can run.
    pub fn has(&self, model: Model) -> bool {
        match model {
            Model::Lkmm => self.lkmm.is_some(),
            Model::Rc11 => true,
        }
    }

    /// Runs one test and returns herd7's answer. The error says why there is none.
    pub fn observe(&self, test: &Litmus) -> Result<Observation, String> {
        let mut command = Command::new(&self.program);
        match (test.model, &self.lkmm) {
            (Model::Lkmm, Some(dir)) => {
                command
                    .arg("-I")
                    .arg(dir)
                    .arg("-conf")
                    .arg(dir.join(LKMM_CONFIG));
                // Leave out the candidate executions that violate coherence as they are made: the
                // model forbids them anyway, and the larger tests take minutes otherwise.
                command.args(["-optace", "true"]);
            }
            (Model::Lkmm, None) => return Err(GET_LKMM.to_owned()),
            (Model::Rc11, _) => {
                command.args(["-model", "rc11.cat"]);
            }
        }
        let output = command
            .arg(&test.path)
            .output()
            .map_err(|e| format!("cannot run {}: {e}", self.program.display()))?;
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        if !output.status.success() {
            return Err(format!(
                "herd7 failed ({}): {}",
                output.status,
                first_lines(&text)
            ));
        }
        parse_answer(&test.name, &text)
    }
}

/// Finds herd7: the program that `HERD7` names, or the first on `PATH`. `None` if there is none; an
/// error if one was named and is not there, since a wrong setting must not look like a skipped run.
pub fn find_herd7(
    named: Option<OsString>,
    path: Option<OsString>,
) -> Result<Option<PathBuf>, String> {
    if let Some(named) = named.filter(|n| !n.is_empty()) {
        let program = PathBuf::from(named);
        return if program.is_file() {
            Ok(Some(program))
        } else {
            Err(format!(
                "HERD7 names {}, which is not a file",
                program.display()
            ))
        };
    }
    let on_path = path
        .as_deref()
        .map(std::env::split_paths)
        .into_iter()
        .flatten();
    Ok(on_path
        .map(|dir| dir.join("herd7"))
        .find(|file| file.is_file()))
}

/// Checks the folder that was named for the kernel's model, by an option or by `LKMM_DIR`.
pub fn find_lkmm(named: Option<OsString>) -> Result<Option<PathBuf>, String> {
    let Some(named) = named.filter(|n| !n.is_empty()) else {
        return Ok(None);
    };
    let dir = Path::new(&named);
    if dir.join(LKMM_CONFIG).is_file() {
        Ok(Some(dir.to_owned()))
    } else {
        Err(format!("there is no {LKMM_CONFIG} in {}", dir.display()))
    }
}

/// Reads herd7's answer for the test `name`.
///
/// A flag (such as a data race) or an undefined behaviour is an error: the answer is then worthless.
pub fn parse_answer(name: &str, text: &str) -> Result<Observation, String> {
    let flagged = |line: &&str| line.starts_with("Flag ") || line.starts_with("Undef");
    if let Some(line) = text.lines().find(flagged) {
        return Err(format!("herd7 flags the test: {}", line.trim()));
    }
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("Observation ") else {
            continue;
        };
        let mut words = rest.split_whitespace();
        if words.next() != Some(name) {
            return Err(format!("herd7 answers for another test: {line}"));
        }
        return words
            .next()
            .and_then(Observation::from_word)
            .ok_or_else(|| format!("an answer that is not understood: {line}"));
    }
    Err(format!("no answer from herd7: {}", first_lines(text)))
}

fn first_lines(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .take(3)
        .collect();
    lines.join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = "Test t Allowed\nStates 1\n0:r0=1;\nNo\nWitnesses\n\
        Positive: 0 Negative: 2\nCondition exists (0:r0=0)\nObservation t Never 0 2\n\
        Time t 0.01\n";

    #[test]
    fn answer_is_read() {
        assert_eq!(parse_answer("t", ANSWER), Ok(Observation::Never));
        let text = ANSWER.replace("Never 0 2", "Sometimes 1 1");
        assert_eq!(parse_answer("t", &text), Ok(Observation::Sometimes));
        let text = ANSWER.replace("Never 0 2", "Always 2 0");
        assert_eq!(parse_answer("t", &text), Ok(Observation::Always));
    }

    #[test]
    fn no_answer_is_an_error() {
        let error = |name: &str, text: &str| parse_answer(name, text).expect_err("no answer");
        let warning = "Warning: File \"t.litmus\", line 3: unexpected '&' (in prog) (User error)\n";
        assert!(error("t", warning).contains("unexpected '&'"));
        assert!(error("t", "").contains("no answer"));
        assert!(error("other", ANSWER).contains("another test"));
        assert!(error("t", &ANSWER.replace("Never", "Perhaps")).contains("not understood"));
        let raced = ANSWER.replace("Witnesses", "Flag data-race\nWitnesses");
        assert!(error("t", &raced).contains("data-race"));
    }

    #[test]
    fn wrong_settings_are_errors_and_missing_ones_are_not() {
        let gone = std::env::temp_dir().join("pagewell-verify-no-such-folder");
        assert!(find_herd7(Some(gone.clone().into()), None).is_err());
        assert_eq!(find_herd7(None, Some(gone.clone().into())), Ok(None));
        assert_eq!(find_herd7(Some(OsString::new()), None), Ok(None));
        assert!(find_lkmm(Some(gone.into())).is_err());
        assert_eq!(find_lkmm(None), Ok(None));
    }
}
