//! The report for people: tables that fit in 100 columns.

mod format;
mod scaling;

use std::fmt::Write as _;

use comfy_table::Table;

use self::format::{align_right, new_table, plural, time, times};
use self::scaling::scaling_table;
use super::plan::{Bench, Case, Cell};
use super::results::{Measured, engines, ratios};
use super::stats::Spread;
use super::{alloc, contig, engine, fork, migrate, refcount, space, write};
use pagewell_frame::FRAME_BYTES;

use crate::args::Settings;
use crate::copies;
use crate::info;
use crate::size::Bytes;

/// What stands above everything: machine and method.
pub(super) fn heading(settings: &Settings, nr_cpus: u32) -> String {
    format!(
        "pagewell {} on {}, {nr_cpus} processor{}; medians of {} round{} of {} for each engine\ncopies by {}\n",
        env!("CARGO_PKG_VERSION"),
        info::cpu_model()
            .as_deref()
            .unwrap_or(std::env::consts::ARCH),
        plural(nr_cpus),
        settings.rounds,
        plural(settings.rounds),
        time((settings.seconds / settings.rounds).as_nanos() as f64),
        copies::line(),
    )
}

/// A cell in a few words.
pub(super) fn cell_name(cell: &Cell) -> String {
    let workers = format!(
        "{} {}{}",
        cell.threads,
        cell.case.worker(),
        if cell.threads == 1 {
            ""
        } else if cell.case == Case::OneCountProcesses {
            "es"
        } else {
            "s"
        }
    );
    let name = cell.case_name();
    match cell.case.bench() {
        Bench::Read | Bench::Write => format!(
            "{name}, {} of {}, {workers}",
            Bytes(cell.block),
            Bytes(cell.file_bytes)
        ),
        Bench::Contig if cell.case == Case::Lengths => {
            format!("{name}, {} frames, {workers}", nr_frames(cell))
        }
        Bench::Space => format!("{name}, {}, {workers}", Bytes(cell.file_bytes)),
        Bench::Fork | Bench::Migrate => format!("{name}, {}", Bytes(cell.block)),
        Bench::Refcount | Bench::Contig | Bench::Alloc => format!("{name}, {workers}"),
    }
}

/// The tables of one benchmark: one for each case, and one for how the engines
/// scale. `files` says what was read or written.
pub(super) fn report(measured: &[Measured], files: &str) -> String {
    let Some(first) = measured.first() else {
        return String::new();
    };
    let bench = first.cell.case.bench();
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(text, "\n{}", title(bench, files));
    let legend: &[(&str, &str)] = match bench {
        Bench::Refcount => &refcount::LEGEND,
        Bench::Read => &engine::LEGEND,
        Bench::Write => &write::LEGEND,
        Bench::Contig => &contig::LEGEND,
        Bench::Alloc => &alloc::LEGEND,
        Bench::Space => &space::LEGEND,
        Bench::Fork => &fork::LEGEND,
        Bench::Migrate => &migrate::LEGEND,
    };
    for (engine, meaning) in legend {
        let _ = writeln!(text, "  {engine:<15} {meaning}");
    }
    let _ = writeln!(
        text,
        "  Beside each time: how many times faster {} is than that engine.",
        engines(first.cell.case)[0]
    );
    for case in cases(measured) {
        let _ = writeln!(text, "\n{}: {}", case.name(), case.meaning());
        let _ = writeln!(text, "{}", case_table(case, measured));
    }
    if let Some(table) = scaling_table(measured) {
        let _ = writeln!(
            text,
            "\nscaling: operations per second with all workers, as multiples of one"
        );
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
        Bench::Migrate => "MIGRATE: a range moved to another node, time per page".to_owned(),
    }
}

/// The main ratios once more, in words.
pub(super) fn summary(measured: &[Measured]) -> String {
    let mut text = String::from("\nIn short (\"A: 2x B\" says that A was twice as fast as B)\n");
    for measured in measured.iter().filter(|measured| is_telling(measured)) {
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
        Case::WriteCommit64 | Case::Writeback => true,
        Case::SpaceHot | Case::SpaceRandom | Case::FileRandom | Case::Fork | Case::Forks => true,
        _ => false,
    }
}

/// The cases that were measured, each once.
fn cases(measured: &[Measured]) -> Vec<Case> {
    let all = Bench::ALL.iter().flat_map(|bench| bench.cases());
    all.copied()
        .filter(|case| measured.iter().any(|measured| measured.cell.case == *case))
        .collect()
}

/// A column that says what a row's work is on.
#[derive(Clone, Copy)]
enum Column {
    Block,
    File,
    Frames,
    Forks,
    Memory,
}

impl Column {
    fn name(self) -> &'static str {
        match self {
            Column::Block => "block",
            Column::File => "file",
            Column::Frames => "frames",
            Column::Forks => "forks",
            Column::Memory => "memory",
        }
    }

    fn text(self, cell: &Cell) -> String {
        match self {
            Column::Block => Bytes(cell.block).to_string(),
            Column::File => Bytes(cell.file_bytes).to_string(),
            Column::Frames => nr_frames(cell).to_string(),
            Column::Forks => cell.forks.to_string(),
            Column::Memory => Bytes(cell.block).to_string(),
        }
    }
}

/// The columns that a benchmark's tables have besides workers and engines.
fn columns(bench: Bench) -> &'static [Column] {
    match bench {
        Bench::Read | Bench::Write => &[Column::Block, Column::File],
        Bench::Contig => &[Column::Frames],
        Bench::Space => &[Column::File],
        Bench::Fork => &[Column::Memory],
        Bench::Migrate => &[Column::Forks, Column::Memory],
        Bench::Refcount | Bench::Alloc => &[],
    }
}

/// Frames of a range.
fn nr_frames(cell: &Cell) -> u64 {
    cell.block / FRAME_BYTES as u64
}

fn case_table(case: Case, measured: &[Measured]) -> Table {
    let engines = engines(case);
    let columns = columns(case.bench());
    let workers = match case.worker() {
        "process" => "proc",
        _ => "thr",
    };
    let mut header: Vec<String> = Vec::new();
    header.extend(columns.iter().map(|column| column.name().to_owned()));
    header.push(workers.to_owned());
    header.extend(engines.iter().map(|engine| (*engine).to_owned()));
    let mut table = new_table(header);
    for measured in measured
        .iter()
        .filter(|measured| measured.cell.case == case)
    {
        let cell = &measured.cell;
        let mut row: Vec<String> = columns.iter().map(|column| column.text(cell)).collect();
        row.push(cell.threads.to_string());
        row.extend(engines.iter().map(|engine| in_table(measured, engine)));
        table.add_row(row);
    }
    align_right(&mut table);
    table
}

/// An engine's figure in a row, and how many times faster the first engine is.
fn in_table(measured: &Measured, engine: &str) -> String {
    let Cell { case, threads, .. } = measured.cell;
    let Some(figure) = measured.figure(engine) else {
        return String::new();
    };
    if case.unit() == "share" {
        return format!("{:.1} %", 100.0 * figure.median);
    }
    let time = match case {
        Case::Writeback => format!("{:.0} MiB/s", figure.median),
        _ => time(f64::from(threads) * 1e9 / figure.median),
    };
    let first = engines(case)[0];
    match measured.ratio(first, engine) {
        Some(ratio) if engine != first => format!("{time} {:>6}", times(ratio.median)),
        _ => time,
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
        .filter(|measured| measured.cell.case.unit() != "share");
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
        "noise: the furthest round is {:.0} % off the median typically, {:.0} % at most\n       ({place})",
        100.0 * Spread::of(all)?.median,
        100.0 * most,
    ))
}

#[cfg(test)]
mod tests {
    use super::super::crew::Speeds;
    use super::*;

    /// Each engine twice as fast as the next, in two rounds.
    pub(super) fn measured(case: Case, block: u64, threads: u32) -> Measured {
        let cell = Cell {
            case,
            block,
            file_bytes: if matches!(case.bench(), Bench::Read | Bench::Write) {
                256 << 20
            } else {
                0
            },
            threads,
            forks: if case.bench() == Bench::Migrate {
                10_000
            } else {
                0
            },
        };
        let speed = |lane: u32| 1e6 * f64::from(threads) / f64::from(1 << lane);
        let of_lanes = (0..engines(case).len() as u32)
            .map(|lane| vec![speed(lane), speed(lane)])
            .collect();
        Measured::new(cell, Speeds { of_lanes })
    }

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
            assert!(line.chars().count() <= 100, "{line}");
        }
    }

    #[test]
    fn a_table_has_times_and_ratios_of_its_case() {
        let cells = [
            measured(Case::SameHot, 64, 2),
            measured(Case::DiffHot, 64, 2),
        ];
        let text = case_table(Case::SameHot, &cells).to_string();
        let row = text.lines().find(|line| line.contains("64 B")).unwrap();
        assert!(row.contains("1.00 µs"), "{row}");
        assert!(row.contains("16.0 µs  16.0x"), "{row}");
        assert_eq!(text.matches("64 B").count(), 1);
    }
}
