//! What stands above everything: machine and method.

use super::format::{plural, time};
use crate::bench::plan::Settings;
use crate::machine;

/// What stands above everything: machine and method.
pub(in crate::bench) fn heading(settings: &Settings, nr_cpus: u32) -> String {
    format!(
        "pagewell {} on {}, {nr_cpus} processor{}; medians of {} round{} of {} for each engine\n",
        env!("CARGO_PKG_VERSION"),
        machine::cpu_model()
            .as_deref()
            .unwrap_or(std::env::consts::ARCH),
        plural(nr_cpus),
        settings.rounds,
        plural(settings.rounds),
        time((settings.seconds / settings.rounds).as_nanos() as f64),
    )
}
