//! Width of the moves of long copies in this process, for `info` and `bench`.

use pagewell_sync::bytes::width::{self, Width};
use serde::Serialize;

use crate::failure::Failure;

/// Argument of `bench --copy`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Wanted {
    /// The width that the library selects
    Auto,
    /// Moves of 16 bytes
    Sse2,
    /// Moves of 32 bytes
    Avx,
    /// Moves of 64 bytes
    Avx512,
}

/// Selects the width of all later copies of this process.
pub(crate) fn select(wanted: Wanted) -> Result<(), Failure> {
    let width = match wanted {
        Wanted::Auto => return Ok(()),
        Wanted::Sse2 => Width::Sse2,
        Wanted::Avx => Width::Avx,
        Wanted::Avx512 => Width::Avx512,
    };
    width::select(width).map_err(|error| Failure::because("--copy", error))
}

/// Name of the width, or `portable` for a build without assembly.
pub(crate) fn width() -> &'static str {
    width::selected().map_or("portable", Width::name)
}

/// Copies in `info`'s JSON object.
#[derive(Serialize)]
pub(crate) struct Copies {
    variant: &'static str,
}

impl Copies {
    pub(crate) fn read() -> Copies {
        Copies { variant: width() }
    }
}
