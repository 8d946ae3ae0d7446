//! Values of the command line, and what is wrong with them.

use std::time::Duration;

use clap::error::ErrorKind;

/// Bad usage that the parser cannot see.
#[derive(Debug)]
pub(super) struct Usage {
    pub(super) kind: ErrorKind,
    pub(super) message: String,
}

impl Usage {
    pub(super) fn new(kind: ErrorKind, message: String) -> Usage {
        Usage { kind, message }
    }
}

pub(super) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds")?;
    if !(0.001..=3600.0).contains(&seconds) {
        return Err("expected between 0.001 and 3600 seconds".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}
