//! `pagewell replay`: the requests of a trace against a real file, through Pagewell and through what it would replace.
//!
//! | module | what |
//! |---|---|
//! | [`settings`] | what was asked for |
//! | [`plan`] | the requests as places in the file |
//! | [`engines`] | ways to read and write |
//! | [`resident`] | how much of a file the operating system has in memory |
//! | [`timed`] | the requests, in order, timed |
//! | [`report`] | a table, or JSON lines |
//!
//! - **Owns** the replay and its figures.
//! - **May call** the trace readers; nothing of the other commands.
//! - **Promises** that a file is written to only if it was named by `--writes`, and that every engine gets the same requests.

mod engines;
mod plan;
mod report;
mod resident;
mod settings;
mod timed;

use self::engines::{Opened, Unusable};
use self::plan::Plan;
pub(crate) use self::settings::{EngineName, Pace, ReplaySettings, Target};
use crate::failure::Failure;
use crate::progress::Progress;

/// Replays the trace with each engine.
pub(crate) fn run(settings: &ReplaySettings) -> Result<(), Failure> {
    let plan = Plan::read(settings)?;
    let progress = Progress::of_steps(plan.actions.len() as u64 * settings.engines.len() as u64);
    for note in &plan.notes {
        progress.note(note);
    }
    let mut outcomes = Vec::new();
    let mut left_out = Vec::new();
    for (nr, &name) in settings.engines.iter().enumerate() {
        let done = nr as u64 * plan.actions.len() as u64;
        // What the engine before has brought into memory would help this one.
        resident::drop_from_memory(&plan.file);
        let engine = match engines::open(name, settings, &plan) {
            Ok(Opened(engine)) => engine,
            Err(Unusable::Failed(failure)) => return Err(failure),
            Err(Unusable::Here(why)) => {
                progress.note(&format!("{name} is left out: {why}"));
                left_out.push(name);
                continue;
            }
        };
        progress.say(name.to_string());
        let outcome = timed::replay(name, engine, &plan, settings, &mut |at| {
            progress.step_to(done + at);
        })?;
        progress.aside(|| report::each(&outcome, &plan, settings))?;
        outcomes.push(outcome);
    }
    drop(progress);
    if outcomes.is_empty() {
        return Err(Failure::Run(format!(
            "{} can be replayed by none of the engines here",
            settings.trace.display()
        )));
    }
    report::all(&outcomes, &plan, settings)
}
