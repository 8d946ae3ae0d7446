//! All litmus tests together, and the report.
//!
//! The rules of [`litmus`] are checked always, herd7 or not. Then herd7 answers for
//! every test whose model is there, several at a time, and each answer is compared with the test's
//! `Result:` line.

use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::herd::{GET_HERD7, GET_LKMM, Herd};
use crate::litmus::{self, Litmus, Model, Observation};
use crate::{Ended, Trouble};

/// What to run, and with what.
#[derive(Debug, Clone)]
pub struct Options {
    /// The herd7 to call; `None` checks the rules only.
    pub herd: Option<Herd>,
    /// The names of the tests to run; all if empty. A name selects its twins, too.
    pub names: Vec<String>,
    /// How many herd7 processes to run at a time; at least 1.
    pub jobs: usize,
    /// Whether a test that cannot run, for want of herd7 or of a model, is a failure.
    pub missing: Missing,
}

/// What a test means that cannot run for want of herd7 or of its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// It is reported as skipped.
    Skips,
    /// It is a failure: for machines that are known to have what is needed.
    Fails,
}

/// How one test went.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    /// herd7 answers what the file says.
    AsStated,
    /// herd7 answers something else.
    Differs(Observation),
    /// herd7 gives no answer that can be used.
    NoAnswer(String),
    /// Its model is not there.
    Skipped,
}

/// Checks the tests in `dir` and writes the report to `out`, a line for each test.
///
/// # Errors
///
/// If `dir` cannot be read, `out` cannot be written, or a name selects no test.
pub fn run(dir: &Path, options: &Options, out: &mut (dyn Write + Send)) -> Result<Ended, Trouble> {
    let (tests, mut problems) = litmus::read_folder(dir)?;
    problems.extend(litmus::check_rules(&tests));
    let chosen = choose(&tests, &options.names)?;
    let say = |out: &mut dyn Write, line: String| {
        writeln!(out, "{line}").map_err(|e| format!("cannot write the report: {e}"))
    };
    for problem in &problems {
        say(out, format!("RULE      {problem}"))?;
    }
    let verdicts = match &options.herd {
        Some(herd) => observe_all(herd, &chosen, options.jobs, out)?,
        None => vec![Verdict::Skipped; chosen.len()],
    };
    let nr = |is: fn(&Verdict) -> bool| verdicts.iter().filter(|v| is(v)).count();
    let nr_skipped = nr(|v| *v == Verdict::Skipped);
    let nr_good = nr(|v| *v == Verdict::AsStated);
    if nr_skipped > 0 {
        let why = if options.herd.is_none() {
            GET_HERD7
        } else {
            GET_LKMM
        };
        say(out, format!("skipped: {nr_skipped} litmus tests; {why}"))?;
    }
    let nr_bad = verdicts.len() - nr_good - nr_skipped;
    say(
        out,
        format!(
            "{nr_good} as stated, {nr_bad} not as stated, {nr_skipped} skipped, {} rules broken",
            problems.len()
        ),
    )?;
    let missed = nr_skipped > 0 && options.missing == Missing::Fails;
    Ok(if nr_bad > 0 || missed || !problems.is_empty() {
        Ended::Failed
    } else {
        Ended::Well
    })
}

/// The tests that `names` select: by their own name or by that of the test that they break.
fn choose<'a>(tests: &'a [Litmus], names: &[String]) -> Result<Vec<&'a Litmus>, Trouble> {
    let selects = |name: &String, test: &Litmus| {
        *name == test.name || test.twin_of().is_some_and(|(base, _)| base == name)
    };
    if let Some(name) = names.iter().find(|n| !tests.iter().any(|t| selects(n, t))) {
        return Err(Trouble::Usage(format!("there is no litmus test `{name}`")));
    }
    Ok(tests
        .iter()
        .filter(|t| names.is_empty() || names.iter().any(|n| selects(n, t)))
        .collect())
}

/// Runs `tests` with `jobs` threads, and reports each as it ends. The verdicts are in the order of
/// the tests.
fn observe_all(
    herd: &Herd,
    tests: &[&Litmus],
    jobs: usize,
    out: &mut (dyn Write + Send),
) -> Result<Vec<Verdict>, String> {
    let queue = Mutex::new(tests.iter().enumerate());
    let done = Mutex::new((vec![Verdict::Skipped; tests.len()], out, Ok(())));
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, tests.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let next = lock(&queue).next();
                    let Some((at, test)) = next else { break };
                    let verdict = judge(herd, test);
                    let mut done = lock(&done);
                    if let Some(line) = line_for(test, &verdict)
                        && let Err(e) = writeln!(done.1, "{line}")
                    {
                        done.2 = Err(format!("cannot write the report: {e}"));
                    }
                    done.0[at] = verdict;
                }
            });
        }
    });
    let (verdicts, _, written) = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    written.map(|()| verdicts)
}

/// Locks, and goes on with the data of a thread that panicked: none leaves them half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn judge(herd: &Herd, test: &Litmus) -> Verdict {
    if !herd.has(test.model) {
        return Verdict::Skipped;
    }
    match herd.observe(test) {
        Ok(seen) if seen == test.result => Verdict::AsStated,
        Ok(seen) => Verdict::Differs(seen),
        Err(why) => Verdict::NoAnswer(why),
    }
}

fn line_for(test: &Litmus, verdict: &Verdict) -> Option<String> {
    let name = &test.name;
    let model = match test.model {
        Model::Lkmm => "LKMM",
        Model::Rc11 => "RC11",
    };
    let result = test.result;
    match verdict {
        Verdict::AsStated => Some(format!("ok        {model} {result:<9} {name}")),
        Verdict::Differs(seen) => Some(format!(
            "MISMATCH  {model} {result:<9} {name}: herd7 says {seen}"
        )),
        Verdict::NoAnswer(why) => Some(format!("ERROR     {model} {result:<9} {name}: {why}")),
        Verdict::Skipped => None,
    }
}
