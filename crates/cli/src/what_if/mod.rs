//! `pagewell what-if`: how often caches of several sizes and policies would hit, under a workload that was traced.
//!
//! | module | what |
//! |---|---|
//! | [`settings`] | what was asked for |
//! | [`sample`] | which pages are simulated, and what stands for the others |
//! | [`workload`] | the trace as pages, numbered densely |
//! | [`sweep`] | which sizes; the simulations, on all processors |
//! | [`answers`] | what the curves say, in words |
//! | [`report`] | tables, JSON lines, a page of HTML |
//!
//! - **Owns** the miss-ratio curve of a trace and what is said of it. The policies are those of `pagewell_sim`.
//! - **May call** the trace readers; nothing of the other commands.
//! - **Promises** that figures from a sample are told with their error, and that a trace which needs more memory than there is ends
//!   with an error that says what to do.

mod answers;
mod report;
mod sample;
mod settings;
mod sweep;
#[cfg(test)]
mod tests;
mod workload;

use self::answers::Answers;
use self::report::{Results, html};
pub(crate) use self::settings::{Rate, Size, WhatIfSettings};
use self::sweep::Sweep;
use self::workload::Workload;
use crate::failure::Failure;
use crate::output::{self, Format};
use crate::progress::Progress;

/// Reads the trace, simulates, and prints.
pub(crate) fn run(settings: &WhatIfSettings) -> Result<(), Failure> {
    let workload = Workload::read(settings)?;
    let sweep = Sweep::plan(&workload, settings)?;
    let progress = Progress::of_steps(sweep.nr_steps());
    workload.tell(settings, &progress);
    let curves = sweep.run(&workload, &progress);
    // They take simulations of their own; JSON lines have no words.
    let answers = match (settings.format, &settings.html) {
        (Format::Json, None) => Answers::none(),
        _ => Answers::find(&workload, &curves, settings, &progress),
    };
    drop(progress);
    let results = Results {
        settings,
        workload: &workload,
        curves: &curves,
        answers: &answers,
    };
    match settings.format {
        Format::Table => output::print(&report::text(&results))?,
        Format::Json => {
            for record in report::records(&results) {
                output::print_json(&record)?;
            }
        }
    }
    match &settings.html {
        Some(path) => html::write(path, &results),
        None => Ok(()),
    }
}
