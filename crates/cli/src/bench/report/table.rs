//! The report for people: tables that fit in 100 columns.

use std::fmt::Write as _;

use super::cell::{cases, cell_name};
use super::cell_table::cell_tables;
use super::format::{times, wrap};
use super::measured::Measured;
use super::scaling::scaling_tables;
use super::stats::Spread;
use crate::bench::cases::{engines, legend, ratios};
use crate::bench::crew::Bound;
use crate::bench::plan::{Bench, Case};
use crate::size::Bytes;

/// The tables of one benchmark: one for each case, and one for how the engines
/// scale. `files` says what was read or written.
pub(in crate::bench) fn report(measured: &[Measured], files: &str) -> String {
    let Some(first) = measured.first() else {
        return String::new();
    };
    let bench = first.cell.case.bench();
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(text, "\n{}", wrap(&title(bench, files)));
    let is_here = |engine: &str| {
        measured
            .iter()
            .any(|measured| engines(measured.cell.case).contains(&engine))
    };
    for (engine, meaning) in legend(bench).iter().filter(|(engine, _)| is_here(engine)) {
        let _ = writeln!(text, "  {engine:<15} {meaning}");
    }
    if !ratios(first.cell.case).is_empty() {
        let _ = writeln!(
            text,
            "  Beside each time: how many times faster {} is than that engine.",
            match bench {
                // It differs from case to case.
                Bench::Cold => "the first engine",
                _ => engines(first.cell.case)[0],
            }
        );
    }
    if measured
        .iter()
        .any(|measured| measured.cell.case.has_cpu_time())
    {
        let _ = writeln!(
            text,
            "  cpu: processor time of the whole process per operation (sequential: MiB), all \
             threads included."
        );
    }
    for case in cases(measured) {
        let _ = writeln!(text, "\n{}: {}", case.name(), case.meaning());
        for table in cell_tables(case, measured) {
            let _ = writeln!(text, "{table}");
        }
        for line in memory(case, measured) {
            let _ = writeln!(text, "{}", wrap(&line));
        }
    }
    let tables = scaling_tables(measured);
    if !tables.is_empty() {
        let _ = writeln!(
            text,
            "\nscaling: operations per second with all workers, as multiples of one"
        );
    }
    for table in tables {
        let _ = writeln!(text, "{table}");
    }
    if let Some(noise) = noise(measured) {
        let _ = writeln!(text, "\n{noise}");
    }
    text
}

/// What is measured, and how it is given. `files` says what was read or written.
fn title(bench: Bench, files: &str) -> String {
    match bench {
        Bench::Refcount => {
            "REFCOUNT: one reference taken and dropped, time per pair and thread".to_owned()
        }
        Bench::Pin => "PIN: one hot page pinned and let go of, time per pair and thread".to_owned(),
        Bench::Read => format!("READ: cached reads of {files}, time per read and thread"),
        Bench::Write => {
            format!("WRITE: writes to cached pages of {files}, time per write and thread")
        }
        Bench::Contig => {
            "CONTIG: single frames freed as contiguous ranges, time per range and thread".to_owned()
        }
        Bench::Alloc => {
            "ALLOC: blocks allocated and freed, not touched, time per pair and thread".to_owned()
        }
        Bench::Space => {
            "SPACE: reads of 64 bytes of a memory space, time per read and thread".to_owned()
        }
        Bench::Fork => {
            "FORK: snapshots of memory, time per fork, or per first write after it".to_owned()
        }
        Bench::Tree if files.is_empty() => {
            "TREE: inserts into a B+tree with a log, time per insert and thread".to_owned()
        }
        Bench::Tree => format!("TREE: gets from a B+tree with {files}, time per get and thread"),
        Bench::Cold => format!("COLD: {files}, time per operation of all threads together"),
        Bench::Migrate => "MIGRATE: a range moved to another node, time per page".to_owned(),
    }
}

/// How much memory the engines of a case had, where that was to be bounded; each answer once.
fn memory(case: Case, measured: &[Measured]) -> Vec<String> {
    let mut lines = Vec::new();
    for measured in measured
        .iter()
        .filter(|measured| measured.cell.case == case)
    {
        let line = match &measured.memory {
            Some(Bound::Bytes(bytes)) => format!(
                "memory of each engine: {}, that of the operating system for its files included",
                Bytes(*bytes)
            ),
            Some(Bound::CouldNot(why)) => format!("memory is not bounded: {why}"),
            None => continue,
        };
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// The main ratios once more, in words.
pub(in crate::bench) fn summary(measured: &[Measured]) -> String {
    let mut telling = measured
        .iter()
        .filter(|measured| is_telling(measured))
        .peekable();
    if telling.peek().is_none() {
        return String::new();
    }
    let mut text = String::from("\nIn short (\"A: 2x B\" says that A was twice as fast as B)\n");
    for measured in telling {
        let _ = writeln!(text, "  {}", cell_name(&measured.cell));
        let ratios = ratios(measured.cell.case);
        for (at, &(faster, _)) in ratios.iter().enumerate() {
            if ratios[..at].iter().any(|&(named, _)| named == faster) {
                continue;
            }
            let than: Vec<String> = ratios
                .iter()
                .filter(|&&(a, _)| a == faster)
                .filter_map(|(a, b)| Some(format!("{} {b}", times(measured.ratio(a, b)?.median))))
                .collect();
            let _ = writeln!(text, "    {faster}: {}", than.join(", "));
        }
    }
    text
}

/// Whether a cell stands in the summary: shared data, reads and writes of 64 bytes, what gets to the storage, and the
/// frame pool's main cases.
fn is_telling(measured: &Measured) -> bool {
    match measured.cell.case {
        Case::OneCount | Case::Order9 | Case::Order0Private | Case::Order9Private => true,
        Case::SameHot | Case::SameRandom | Case::WriteRandom => measured.cell.block == 64,
        Case::MissBuffered => measured.cell.block == 4096,
        Case::WriteCommit64 | Case::Writeback => true,
        case if case.bench() == Bench::Cold => true,
        Case::SpaceHot | Case::SpaceRandom | Case::FileRandom | Case::Fork | Case::Forks => true,
        _ => false,
    }
}

/// How much the rounds differ, if there are several.
fn noise(measured: &[Measured]) -> Option<String> {
    if measured.iter().all(|measured| measured.nr_rounds() < 2) {
        return None;
    }
    let mut widest: Option<(f64, String)> = None;
    let mut all = Vec::new();
    // The rounds of shares are different histories.
    let speeds = measured
        .iter()
        .filter(|measured| !measured.cell.case.is_share());
    for measured in speeds {
        for engine in engines(measured.cell.case) {
            let Some(speed) = measured.figure(engine) else {
                continue;
            };
            let off = (speed.max / speed.median - 1.0).max(1.0 - speed.min / speed.median);
            all.push(off);
            if widest.as_ref().is_none_or(|(most, _)| off > *most) {
                widest = Some((off, format!("{engine} in {}", cell_name(&measured.cell))));
            }
        }
    }
    let (most, place) = widest?;
    Some(format!(
        "noise: the furthest round is {:.0} % off the median typically, {:.0} % at most\n       \
         ({place})",
        100.0 * Spread::of(all)?.median,
        100.0 * most,
    ))
}

#[cfg(test)]
mod tests {
    use super::super::format::COLUMNS;
    use super::super::sample::measured;
    use super::*;

    #[test]
    fn no_line_is_wider_than_a_hundred_columns() {
        let mut cells = Vec::new();
        for &case in Bench::Read.cases() {
            for block in [1, 64, 32_768] {
                cells.push(measured(case, block, 1));
                cells.push(measured(case, block, 128));
            }
        }
        let mut text = report(&cells, "256 MiB in /tmp (overlayfs)");
        let writes: Vec<Measured> = Bench::Write
            .cases()
            .iter()
            .flat_map(|&case| [measured(case, 64, 1), measured(case, 65_536, 128)])
            .collect();
        text += &report(&writes, "256 MiB in /tmp (overlayfs)");
        text += &summary(&writes);
        let others = Bench::ALL.into_iter();
        for bench in others.filter(|bench| !matches!(bench, Bench::Read | Bench::Write)) {
            let cells: Vec<Measured> = bench
                .cases()
                .iter()
                .flat_map(|&case| [measured(case, 256 << 20, 1), measured(case, 256 << 20, 64)])
                .collect();
            text += &report(&cells, "");
            text += &summary(&cells);
        }
        text += &summary(&cells);
        for line in text.lines() {
            assert!(line.chars().count() <= COLUMNS, "{line}");
        }
    }

    #[test]
    fn the_folder_of_the_files_breaks_the_title_and_is_whole() {
        let folder = format!("/home/{}/tmp", "name".repeat(30));
        for folder in [
            "/tmp",
            "/home/somebody with a long name/work/of this year/temporary",
            &folder,
        ] {
            let stage = format!("256 MiB in {folder} (overlayfs)");
            let files = [stage.as_str(); 3].join(", ");
            for bench in [Bench::Read, Bench::Write] {
                let cells = [measured(bench.cases()[0], 64, 1)];
                let text = report(&cells, &files);
                for line in text.lines().filter(|line| line.trim() != folder) {
                    assert!(line.chars().count() <= COLUMNS, "{line}");
                }
                let flat = text.lines().map(str::trim).collect::<Vec<_>>().join(" ");
                assert_eq!(flat.matches(folder).count(), 3, "{text}");
            }
        }
    }
}
