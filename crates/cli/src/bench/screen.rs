//! The screen of the bare command: an entry for each thing that Pagewell does, beside what a program uses without it.
//!
//! An entry shows one cell of a benchmark. This file chooses cells and engines, and measures nothing.

use std::fmt::Write as _;

use pagewell_sim::Policy;

use super::plan::{Bench, Case, Cell, Plan};
use super::report::{Measured, plural, time, times, wrap_at};
use crate::size::Bytes;

/// An entry: which cell it shows, and which engines of that cell.
struct Entry {
    case: Case,
    /// Whether the cell is that of the most threads, else that of one thread.
    has_most_threads: bool,
    title: fn(&Cell) -> String,
    engine: &'static str,
    /// Engines to compare with, and what the screen calls them.
    beside: &'static [(&'static str, &'static str)],
    /// Reason of the difference, or what the time is of.
    meaning: &'static str,
}

impl Entry {
    const fn new(case: Case, engine: &'static str, title: fn(&Cell) -> String) -> Self {
        Self {
            case,
            has_most_threads: false,
            title,
            engine,
            beside: &[],
            meaning: "",
        }
    }
}

/// Bytes of reads and writes of cached pages.
const BLOCK: u64 = 64;

const ENTRIES: [Entry; 10] = [
    Entry {
        beside: &[("pread", "pread"), ("mmap", "memcpy from mmap")],
        meaning: "no system call, lock or reference",
        ..Entry::new(Case::SameHot, "optimistic", |_| {
            "read 64 B, one cached page".to_owned()
        })
    },
    Entry {
        beside: &[("pread", "pread"), ("mmap", "memcpy from mmap")],
        meaning: "as above, beyond the CPU's caches",
        ..Entry::new(Case::SameRandom, "optimistic", |cell| {
            format!("read 64 B, random in {}", Bytes(cell.file_bytes))
        })
    },
    Entry {
        has_most_threads: true,
        beside: &[("counted", "reference count")],
        meaning: "threads write no shared counter",
        ..Entry::new(Case::OnePage, "announced", |cell| {
            format!(
                "pin one page, {} thread{}",
                cell.threads,
                plural(cell.threads)
            )
        })
    },
    Entry {
        beside: &[("pwrite", "pwrite"), ("mmap", "memcpy to mmap")],
        meaning: "no system call",
        ..Entry::new(Case::WriteRandom, "pagewell", |cell| {
            format!("write 64 B, random in {}", Bytes(cell.file_bytes))
        })
    },
    Entry {
        beside: &[
            ("fdatasync", "pwrite and fdatasync"),
            ("one-thread", "one thread alone"),
        ],
        meaning: "group commit; all threads at once",
        ..Entry::new(Case::CommitThreads64, "blocking", |_| {
            "write 4 KiB and sync, 64 threads".to_owned()
        })
    },
    Entry {
        beside: &[("pread", "pread"), ("fio-psync", "fio, psync")],
        meaning: "lookup, frame, then the device",
        ..Entry::new(Case::RandomDepth1, "blocking", |_| {
            "read 4 KiB, not cached".to_owned()
        })
    },
    Entry {
        beside: &[
            ("fio-uring", "fio, io_uring"),
            ("read-many", "File::read_many"),
        ],
        meaning: "futures; all reads together",
        ..Entry::new(Case::RandomDepth64, "async", |_| {
            "the same, 64 reads in flight".to_owned()
        })
    },
    Entry {
        beside: &[
            ("fork(2)", "fork(2)"),
            ("fork(2)-huge", "fork(2), huge pages"),
        ],
        meaning: "page tables shared until written",
        ..Entry::new(Case::Fork, "shared-tables", |cell| {
            format!("snapshot of {} of memory", Bytes(cell.block))
        })
    },
    Entry {
        beside: &[
            ("full-walk", "entries not counted"),
            ("early-stop", "counted, page by page"),
            ("memcpy", "memcpy"),
        ],
        meaning: "the second walk stops early",
        ..Entry::new(Case::Forks, "batched", |cell| {
            format!("migrate a page beside {} forks", cell.forks)
        })
    },
    Entry {
        beside: &[("one-by-one", "page by page")],
        meaning: "largest aligned blocks",
        ..Entry::new(Case::Order9, "chunked", |_| {
            "allocate, split and free 2 MiB".to_owned()
        })
    },
];

/// The cases of the entries.
pub(in crate::bench) fn cases() -> Vec<Case> {
    ENTRIES.iter().map(|entry| entry.case).collect()
}

/// Whether an entry shows the cell, of a plan with at most so many threads.
pub(in crate::bench) fn shows(cell: &Cell, most_threads: u32) -> bool {
    let is_of = |entry: &Entry| {
        let threads = if entry.has_most_threads {
            most_threads
        } else {
            1
        };
        let has_own_threads = entry.case.bench() == Bench::Cold;
        let is_block = !matches!(entry.case.bench(), Bench::Read | Bench::Write);
        entry.case == cell.case
            && (has_own_threads || cell.threads == threads)
            && (is_block || cell.block == BLOCK)
    };
    ENTRIES.iter().any(is_of)
}

/// Titles of the entries that the screen lacks because their cells were not measured, and of the hit ratio.
pub(in crate::bench) fn missing(measured: &[Measured], plan: &Plan) -> Vec<String> {
    let is_measured = |cell: &Cell| measured.iter().any(|it| it.cell.case == cell.case);
    let title = |cell: &Cell| {
        let entry = ENTRIES.iter().find(|entry| entry.case == cell.case)?;
        Some((entry.title)(cell))
    };
    plan.cells()
        .filter(|cell| !is_measured(cell))
        .filter_map(title)
        .chain(["hit ratio".to_owned()])
        .collect()
}

/// Hit ratios of policies on one made-up trace.
#[derive(Debug)]
pub(in crate::bench) struct HitRatios {
    pub(in crate::bench) title: String,
    pub(in crate::bench) meaning: String,
    pub(in crate::bench) of: Vec<(Policy, f64)>,
}

/// Width of titles and names.
const NAME_COLUMNS: usize = 36;

/// Minimum width of a screen with meanings.
const MEANING_COLUMNS: usize = 80;

/// Width of a time.
const TIME_COLUMNS: usize = 9;

/// All entries that were measured. Below 80 columns their meanings are left out.
pub(in crate::bench) fn screen(
    measured: &[Measured],
    hit_ratios: Option<&HitRatios>,
    columns: usize,
) -> String {
    let mut text = String::new();
    for entry in &ENTRIES {
        let Some(cell) = measured.iter().find(|it| it.cell.case == entry.case) else {
            continue;
        };
        let Some(figure) = figure(cell, entry.engine) else {
            continue;
        };
        head(
            &mut text,
            &(entry.title)(&cell.cell),
            &figure,
            entry.meaning,
            columns,
        );
        for (engine, name) in entry.beside {
            let ratio = cell.ratio(entry.engine, engine);
            match (self::figure(cell, engine), ratio) {
                (Some(figure), Some(ratio)) => {
                    beside(&mut text, name, &figure, &compared(ratio.median));
                }
                _ => beside(&mut text, name, "-", "not measured"),
            }
        }
    }
    if let Some(ratios) = hit_ratios {
        let percent = |ratio: f64| format!("{:.1} %", 100.0 * ratio);
        let of = |policy| ratios.of.iter().find(|(it, _)| *it == policy);
        if let Some((_, own)) = of(Policy::Pagewell) {
            head(
                &mut text,
                &ratios.title,
                &percent(*own),
                &ratios.meaning,
                columns,
            );
            for (policy, ratio) in ratios.of.iter().filter(|(it, _)| *it != Policy::Pagewell) {
                let points = format!("{:+.1} points", 100.0 * (own - ratio));
                beside(&mut text, policy.name(), &percent(*ratio), &points);
            }
        }
    }
    text
}

fn head(text: &mut String, title: &str, figure: &str, meaning: &str, columns: usize) {
    let line = format!("{title:<NAME_COLUMNS$}{figure:>TIME_COLUMNS$}");
    let meaning = if columns < MEANING_COLUMNS {
        ""
    } else {
        meaning
    };
    // Writing to a string does not fail.
    let _ = writeln!(text, "{}", format!("{line}  {meaning}").trim_end());
}

fn beside(text: &mut String, name: &str, figure: &str, compared: &str) {
    let width = NAME_COLUMNS - 2;
    let _ = writeln!(text, "  {name:<width$}{figure:>TIME_COLUMNS$}  {compared}");
}

/// Time of an operation of an engine: per thread, but where all threads commit or read the device together.
fn figure(measured: &Measured, engine: &str) -> Option<String> {
    let threads = match measured.cell.case.bench() {
        Bench::Cold => 1,
        _ => measured.cell.threads,
    };
    let figure = measured.figure(engine)?;
    Some(time(f64::from(threads) * 1e9 / figure.median))
}

/// A ratio in words, from Pagewell's side. Within a twentieth, the machine's noise decides.
fn compared(ratio: f64) -> String {
    match ratio {
        ..0.95 => format!("{} slower", times(1.0 / ratio)),
        1.05.. => format!("{} faster", times(ratio)),
        _ => "as fast".to_owned(),
    }
}

/// What ends the screen: what was left out, and where to read on.
pub(in crate::bench) fn footer(left_out: &[String], columns: usize) -> String {
    let mut text = String::from("\n");
    for reason in left_out {
        let _ = writeln!(text, "left out: {reason}");
    }
    text.push_str("Details: cargo run --release -- bench all\n");
    wrap_at(&text, columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::cases::ratios;
    use crate::bench::report::sample::measured;

    fn all() -> Vec<Measured> {
        let threads = |entry: &Entry| if entry.has_most_threads { 2 } else { 1 };
        ENTRIES
            .iter()
            .map(|entry| measured(entry.case, BLOCK, threads(entry)))
            .collect()
    }

    #[test]
    fn each_entry_shows_engines_that_its_case_compares() {
        for entry in &ENTRIES {
            for (engine, name) in entry.beside {
                assert!(
                    ratios(entry.case).contains(&(entry.engine, engine)),
                    "{name}"
                );
            }
            let cell = measured(
                entry.case,
                BLOCK,
                if entry.has_most_threads { 2 } else { 1 },
            );
            assert!(shows(&cell.cell, 2));
            let other = measured(
                entry.case,
                BLOCK,
                if entry.has_most_threads { 1 } else { 2 },
            );
            let is_one_cell = entry.case.bench() == Bench::Cold;
            assert_eq!(shows(&other.cell, 2), is_one_cell, "{:?}", entry.case);
        }
        assert!(!shows(&measured(Case::OwnPages, 0, 1).cell, 1));
        assert!(!shows(&measured(Case::SameHot, 4096, 1).cell, 1));
    }

    #[test]
    fn it_is_one_screen_of_a_hundred_columns_and_fits_in_sixty() {
        let hit_ratios = HitRatios {
            title: "hit ratio, zipf-0.99".to_owned(),
            meaning: "simulated, 5000 of 100000 pages".to_owned(),
            of: vec![
                (Policy::Pagewell, 0.7),
                (Policy::Clock, 0.6),
                (Policy::QuickCache, 0.71),
            ],
        };
        for columns in [60, 80, 100] {
            let text = screen(&all(), Some(&hit_ratios), columns);
            let text = text + &footer(&["cold: no room on the device".to_owned()], columns);
            for line in text.lines() {
                assert!(line.chars().count() <= columns, "{columns}: {line}");
            }
            assert!(text.lines().count() <= 40, "{text}");
            assert_eq!(text.contains("no system call"), columns >= 80);
            assert!(text.contains("+10.0 points") && text.contains("-1.0 points"));
        }
    }

    #[test]
    fn where_it_is_slower_it_says_so() {
        assert_eq!(compared(0.5), "2.00x slower");
        assert_eq!(compared(3.0), "3.00x faster");
        assert_eq!(compared(1.01), "as fast");
    }

    #[test]
    fn what_was_not_measured_has_no_entry() {
        assert_eq!(screen(&[], None, 100), "");
        let text = screen(&[measured(Case::Fork, 64 << 20, 1)], None, 100);
        assert!(text.starts_with("snapshot of 64 MiB"), "{text}");
        assert!(!text.contains("read"), "{text}");
    }
}
