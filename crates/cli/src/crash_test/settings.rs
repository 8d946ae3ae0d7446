//! A crash test as it was asked for.

use std::path::PathBuf;
use std::time::Duration;

use pagewell_crash::Broken;

use super::ways::{Engine, Transfers};
use crate::output::Format;

/// One of the tests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    Kill,
    Simulated,
}

/// A crash test as it was asked for, checked.
#[derive(Clone, Debug)]
pub(crate) struct CrashTestSettings {
    pub(crate) modes: Vec<Mode>,
    /// None for another one each time.
    pub(crate) seed: Option<u64>,
    pub(crate) limit: Option<Duration>,
    pub(crate) kills: u32,
    pub(crate) histories: u64,
    pub(crate) threads: Option<u8>,
    pub(crate) dir: Option<PathBuf>,
    /// None for all, in turn.
    pub(crate) transfers: Option<Transfers>,
    pub(crate) engine: Option<Engine>,
    pub(crate) broken: Broken,
    pub(crate) format: Format,
}
