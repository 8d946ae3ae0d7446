//! What stands above everything: machine and method.

use super::format::{plural, shortened, time, wrap};
use crate::bench::plan::Settings;
use crate::copies;
use crate::machine;

/// The most characters of the processor's name that are shown: those of known processors have up to fifty.
const LONGEST_NAME: usize = 64;

/// What stands above everything: machine and method.
pub(in crate::bench) fn heading(settings: &Settings, nr_cpus: u32) -> String {
    heading_on(machine::cpu_model().as_deref(), settings, nr_cpus)
}

/// The heading on a processor of this name, if it has one.
fn heading_on(cpu_model: Option<&str>, settings: &Settings, nr_cpus: u32) -> String {
    wrap(&format!(
        "pagewell {} on {}, {nr_cpus} processor{}; medians of {} round{} of {} for each \
         engine\ncopies by {}\n",
        env!("CARGO_PKG_VERSION"),
        shortened(cpu_model.unwrap_or(std::env::consts::ARCH), LONGEST_NAME),
        plural(nr_cpus),
        settings.rounds,
        plural(settings.rounds),
        time((settings.seconds / settings.rounds).as_nanos() as f64),
        copies::width(),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::format::COLUMNS;
    use super::*;

    /// Once all of it stood in one line, and the tests of the command failed on a processor with a name of 31 characters: the
    /// line was wider than a hundred columns.
    #[test]
    fn the_heading_is_lines_of_a_hundred_columns_whatever_the_processor_is_called() {
        let settings = Settings {
            rounds: 1000,
            ..Settings::quick()
        };
        let words = "name of many words ".repeat(20);
        let one_word = "x".repeat(300);
        let names = [
            None,
            Some("AMD EPYC"),
            Some("Intel(R) Xeon(R) Processor @ 2.60GHz"),
            Some("13th Gen Intel(R) Core(TM) i9-13900K with Radeon Graphics @ 5.80GHz"),
            Some(words.trim()),
            Some(&one_word),
        ];
        for name in names {
            for nr_cpus in [1, 2, 64, 1024] {
                let heading = heading_on(name, &settings, nr_cpus);
                for line in heading.lines() {
                    assert!(line.chars().count() <= COLUMNS, "{line}");
                    assert_eq!(line.trim_end(), line);
                }
                assert!(heading.ends_with('\n'));
                let start = name
                    .unwrap_or(std::env::consts::ARCH)
                    .chars()
                    .take(20)
                    .collect::<String>();
                assert!(heading.contains(&start), "{heading}");
                let flat = heading.split_whitespace().collect::<Vec<_>>().join(" ");
                let nr = if nr_cpus == 1 {
                    "1 processor;".to_owned()
                } else {
                    format!("{nr_cpus} processors;")
                };
                assert!(flat.contains(&nr), "{heading}");
            }
        }
    }
}
