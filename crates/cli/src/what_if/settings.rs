//! What was asked for.

use std::path::PathBuf;

use pagewell_sim::Policy;

use crate::output::Format;
use crate::trace;

/// A run of `what-if`, checked.
#[derive(Clone, Debug)]
pub(crate) struct WhatIfSettings {
    /// `-` for the standard input.
    pub(crate) trace: PathBuf,
    pub(crate) trace_format: Option<trace::Format>,
    pub(crate) page_size: u64,
    /// Empty for the sweep over everything.
    pub(crate) sizes: Vec<Size>,
    /// In the order in which they are shown; at least one.
    pub(crate) policies: Vec<Policy>,
    pub(crate) sample: Rate,
    /// What a miss costs, in microseconds.
    pub(crate) miss_us: f64,
    pub(crate) html: Option<PathBuf>,
    pub(crate) format: Format,
}

/// The size of a cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Size {
    Pages(u64),
    Bytes(u64),
    /// Per cent of the pages that the trace touches.
    Percent(f64),
}

/// How many of the pages are simulated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rate {
    All,
    /// This part of them, between 0 and 1.
    Part(f64),
    /// As many as make a small error.
    Auto,
    /// All of them; of a long trace as `Auto`.
    Usual,
}
