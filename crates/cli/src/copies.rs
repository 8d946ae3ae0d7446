//! How bytes are copied in this process, for `info` and `bench`.

use std::sync::OnceLock;

use pagewell_sync::bytes::variant::{self, Choice, Reason, Variant};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::failure::Failure;

/// What `bench --copy` takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Wanted {
    /// What the library chooses
    Auto,
    /// Moves of 16 bytes
    Sse2,
    /// Moves of 32 bytes
    Avx,
    /// Moves of 64 bytes
    Avx512,
    /// The processor's string instruction
    RepMovsb,
    /// Atomics, where there is no assembly
    Portable,
}

/// Has all copies of this process made as they are `wanted`.
pub(crate) fn force(wanted: Wanted) -> Result<(), Failure> {
    let variant = match wanted {
        Wanted::Auto => return Ok(()),
        Wanted::Sse2 => Variant::Sse2,
        Wanted::Avx => Variant::Avx,
        Wanted::Avx512 => Variant::Avx512,
        Wanted::RepMovsb => Variant::RepMovsb,
        Wanted::Portable => Variant::Portable,
    };
    variant::force(variant).map_err(|why| Failure::because("--copy", why))
}

/// The variant that copies are made by.
pub(crate) fn variant() -> &'static str {
    static VARIANT: OnceLock<&str> = OnceLock::new();
    VARIANT.get_or_init(|| variant::choice().variant.name())
}

/// The variant, and why it is used, in a line.
pub(crate) fn line() -> String {
    let Choice { variant, reason } = variant::choice();
    format!("{variant}: {reason}")
}

/// The same for `info`'s JSON object.
#[derive(Serialize)]
pub(crate) struct Copies {
    variant: &'static str,
    /// `measured`, `forced` or `only`.
    reason: &'static str,
    /// Of a copy of 4 KiB, by each variant that was measured.
    nanoseconds: Map<String, Value>,
}

impl Copies {
    pub(crate) fn read() -> Copies {
        let Choice { variant, reason } = variant::choice();
        let (reason, nanoseconds) = match reason {
            Reason::Measured(timings) => {
                let each = timings.iter();
                let each = each.map(|(variant, time)| (variant.name().to_owned(), time.into()));
                ("measured", each.collect())
            }
            Reason::Forced => ("forced", Map::new()),
            _ => ("only", Map::new()),
        };
        Copies {
            variant: variant.name(),
            reason,
            nanoseconds,
        }
    }
}
