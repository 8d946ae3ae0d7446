//! The screen of the bare command: an entry for each thing that Pagewell does, beside what a program uses without it.
//!
//! An entry shows one cell of a benchmark. This file chooses cells and engines, and measures nothing.

use std::fmt::Write as _;

use pagewell_sim::Policy;

use super::format::{COLUMNS, plural, time, times, wrap_at};
use super::measured::Measured;
use crate::bench::plan::{Bench, Case, Cell};
use crate::size::Bytes;

/// An entry: which cell it shows, and which engines of that cell.
struct Entry {
    case: Case,
    /// Whether the cell is that of the most threads, else that of the fewest.
    has_most_threads: bool,
    title: fn(&Cell) -> String,
    engine: &'static str,
    /// Engines to compare with, and what the screen calls them.
    beside: &'static [(&'static str, &'static str)],
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
        meaning: "no system call, no lock, no reference",
        ..Entry::new(Case::SameHot, "optimistic", |_| {
            "read 64 B, one cached page".to_owned()
        })
    },
    Entry {
        beside: &[("pread", "pread"), ("mmap", "memcpy from mmap")],
        meaning: "as above, and a lookup in the page index",
        ..Entry::new(Case::SameRandom, "optimistic", |cell| {
            format!("read 64 B, random in {}", Bytes(cell.file_bytes))
        })
    },
    Entry {
        has_most_threads: true,
        beside: &[("counted", "reference count")],
        meaning: "hazard slots: threads write no shared counter",
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
        meaning: "dirty pages are written back later",
        ..Entry::new(Case::WriteRandom, "pagewell", |cell| {
            format!("write 64 B, random in {}", Bytes(cell.file_bytes))
        })
    },
    Entry {
        beside: &[
            ("fdatasync", "pwrite and fdatasync"),
            ("one-thread", "one thread alone"),
        ],
        meaning: "group commit: concurrent syncs share a flush",
        ..Entry::new(Case::CommitThreads64, "blocking", |_| {
            "write 4 KiB and sync, 64 threads".to_owned()
        })
    },
    Entry {
        beside: &[("pread", "pread"), ("fio-psync", "fio, psync")],
        meaning: "a miss costs what the device costs",
        ..Entry::new(Case::RandomDepth1, "blocking", |_| {
            "read 4 KiB from the device".to_owned()
        })
    },
    Entry {
        beside: &[
            ("fio-uring", "fio, io_uring"),
            ("read-many", "File::read_many"),
        ],
        meaning: "futures of one thread; io_uring below",
        ..Entry::new(Case::RandomDepth64, "async", |_| {
            "the same, 64 reads in flight".to_owned()
        })
    },
    Entry {
        beside: &[
            ("fork(2)", "fork(2)"),
            ("fork(2)-huge", "fork(2), huge pages"),
        ],
        meaning: "page tables are shared until written",
        ..Entry::new(Case::Fork, "shared-tables", |cell| {
            format!("snapshot of {} of memory", Bytes(cell.block))
        })
    },
    Entry {
        beside: &[("full-walk", "uncounted entries"), ("memcpy", "memcpy")],
        meaning: "the second walk stops at the last migration entry",
        ..Entry::new(Case::Forks, "early-stop", |cell| {
            format!("migrate a page beside {} forks", cell.forks)
        })
    },
    Entry {
        beside: &[("one-by-one", "page by page")],
        meaning: "freed as the largest aligned blocks",
        ..Entry::new(Case::Order9, "chunked", |_| {
            "free 2 MiB of split frames".to_owned()
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

/// Hit ratios of policies on one made-up trace.
#[derive(Debug)]
pub(in crate::bench) struct HitRatios {
    /// What was simulated, in at most 35 characters.
    pub(in crate::bench) title: String,
    pub(in crate::bench) of: Vec<(Policy, f64)>,
}

/// Width of titles and names.
const NAME_COLUMNS: usize = 36;

/// Width of a time.
const TIME_COLUMNS: usize = 9;

/// All entries that were measured, in lines of at most `columns` where words allow it.
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
            if let (Some(figure), Some(ratio)) = (self::figure(cell, engine), ratio) {
                beside(&mut text, name, &figure, &compared(ratio.median));
            }
        }
    }
    if let Some(ratios) = hit_ratios {
        let percent = |ratio: f64| format!("{:.1} %", 100.0 * ratio);
        let of = |policy| ratios.of.iter().find(|(it, _)| *it == policy);
        if let Some((_, own)) = of(Policy::Pagewell) {
            let meaning = "more hits are fewer reads of the device";
            head(&mut text, &ratios.title, &percent(*own), meaning, columns);
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
    // Writing to a string does not fail.
    let _ = match columns {
        COLUMNS.. => writeln!(text, "{line}  {meaning}"),
        _ => writeln!(text, "{line}\n  ({meaning})"),
    };
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
    use super::super::sample::measured;
    use super::*;

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
            let cell = measured(entry.case, BLOCK, 1);
            for (engine, _) in entry.beside {
                assert!(cell.ratio(entry.engine, engine).is_some(), "{engine}");
            }
            assert!(shows(&cell.cell, 1));
        }
        let other = measured(Case::OwnPages, 0, 1);
        assert!(!shows(&other.cell, 1));
    }

    #[test]
    fn it_is_one_screen_of_a_hundred_columns_and_fits_in_sixty() {
        let hit_ratios = HitRatios {
            title: "hits, 5 % of 100000 pages, zipf-0.99".to_owned(),
            of: vec![
                (Policy::Pagewell, 0.7),
                (Policy::Clock, 0.6),
                (Policy::QuickCache, 0.71),
            ],
        };
        for columns in [60, 100] {
            let text = screen(&all(), Some(&hit_ratios), columns);
            let text = text + &footer(&["cold: no room on the device".to_owned()], columns);
            for line in text.lines() {
                assert!(line.chars().count() <= columns, "{columns}: {line}");
            }
            assert!(columns < 100 || text.lines().count() <= 40, "{text}");
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
