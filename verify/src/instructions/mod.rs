//! How many instructions a hit has, of each kind, counted by callgrind; beside those of another checkout.
//!
//! Counts do not depend on what else the machine does, so that they show a change that times would hide. They are no times:
//! a load that misses and one that hits count the same.
//!
//! | module | what |
//! |---|---|
//! | [`callgrind`] | valgrind: where it is, how it is called, what it counts |
//! | [`program`] | the program that performs hits, built from a checkout |
//! | [`report`] | a table for people, or one object a line |
//!
//! `verify/README.md` says how to call it.

pub mod callgrind;
pub mod program;
pub mod report;

use std::io::Write;
use std::path::PathBuf;

use crate::{Ended, Trouble};
use callgrind::Callgrind;
use program::Program;
use report::{Count, Format};

/// What to count.
#[derive(Debug, Clone)]
pub struct Options {
    /// The checkout whose hits are counted.
    pub root: PathBuf,
    /// Another one to compare it with.
    pub base: Option<PathBuf>,
    /// Where the other one is built.
    pub scratch: PathBuf,
    /// The kinds of hits; all, if empty.
    pub kinds: Vec<String>,
    /// How many hits the shorter of two runs has.
    pub count: u64,
    /// What the report looks like.
    pub format: Format,
    /// Valgrind, if it is there.
    pub callgrind: Option<Callgrind>,
}

/// Counts, and reports to `out`.
pub fn run(options: &Options, out: &mut impl Write) -> Result<Ended, Trouble> {
    let report = |e: std::io::Error| format!("cannot write the report: {e}");
    let Some(callgrind) = &options.callgrind else {
        report::skipped(out, options.format, callgrind::GET_VALGRIND).map_err(report)?;
        return Ok(Ended::Well);
    };
    let program = Program::of_checkout(&options.root)?;
    let base = match &options.base {
        Some(base) => Some(Program::of_copy(base, &options.root, &options.scratch)?),
        None => None,
    };
    let kinds = chosen(program.kinds()?, &options.kinds)?;
    let valgrind = callgrind.version()?;
    report::head(
        out,
        options.format,
        &valgrind,
        options.count,
        &kinds,
        base.is_some(),
    )
    .map_err(report)?;
    for kind in &kinds {
        let count = Count {
            kind,
            here: per_hit(callgrind, &program, kind, options.count)?,
            base: match &base {
                Some(base) => Some(per_hit(callgrind, base, kind, options.count)?),
                None => None,
            },
        };
        report::count(out, options.format, &count, &kinds).map_err(report)?;
    }
    Ok(Ended::Well)
}

/// The instructions of one hit: two runs, of which one performs twice as many hits, so that what is prepared falls out.
fn per_hit(
    callgrind: &Callgrind,
    program: &Program,
    kind: &str,
    count: u64,
) -> Result<f64, String> {
    let once = callgrind.count(&mut program.hits(kind, count))?;
    let twice = callgrind.count(&mut program.hits(kind, 2 * count))?;
    Ok((twice as f64 - once as f64) / count as f64)
}

/// The kinds that are asked for, in the program's order; all, if none is.
fn chosen(all: Vec<String>, asked: &[String]) -> Result<Vec<String>, Trouble> {
    if let Some(unknown) = asked.iter().find(|kind| !all.contains(kind)) {
        let all = all.join(", ");
        return Err(Trouble::Usage(format!(
            "`{unknown}` is no kind of hit; there are {all}"
        )));
    }
    let is_chosen = |kind: &String| asked.is_empty() || asked.contains(kind);
    Ok(all.into_iter().filter(is_chosen).collect())
}
