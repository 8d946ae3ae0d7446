//! The report for people: tables that fit in 100 columns.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};

use super::engine;
use super::plan::{Case, Cell};
use super::refcount;
use super::results::{Measured, engines, ratios};
use super::stats::Spread;
use crate::args::Settings;
use crate::info;
use crate::size::Bytes;

/// What stands above everything: machine and method.
pub(super) fn heading(settings: &Settings, nr_cpus: u32) -> String {
    format!(
        "pagewell {} on {}, {nr_cpus} processor{}; medians of {} round{} of {} for each engine\n",
        env!("CARGO_PKG_VERSION"),
        info::cpu_model()
            .as_deref()
            .unwrap_or(std::env::consts::ARCH),
        plural(nr_cpus),
        settings.rounds,
        plural(settings.rounds),
        time((settings.seconds / settings.rounds).as_nanos() as f64),
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
    if cell.case.is_refcount() {
        format!("{}, {workers}", cell.case.name())
    } else {
        format!(
            "{}, {} of {}, {workers}",
            cell.case.name(),
            Bytes(cell.block),
            Bytes(cell.file_bytes)
        )
    }
}

/// The tables of one benchmark: one for each case, and one for how the engines
/// scale. `files` says what was read.
pub(super) fn report(measured: &[Measured], files: &str) -> String {
    let Some(first) = measured.first() else {
        return String::new();
    };
    let bench = first.cell.case;
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = match bench.is_refcount() {
        true => writeln!(
            text,
            "\nREFCOUNT: one reference taken and dropped, time per pair and thread"
        ),
        false => writeln!(
            text,
            "\nREAD: cached reads of {files}, time per read and thread"
        ),
    };
    let legend: &[(&str, &str)] = if bench.is_refcount() {
        &refcount::LEGEND
    } else {
        &engine::LEGEND
    };
    for (engine, meaning) in legend {
        let _ = writeln!(text, "  {engine:<15} {meaning}");
    }
    let _ = writeln!(
        text,
        "  Beside each time: how many times faster {} is than that engine.",
        engines(bench)[0]
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

/// Whether a cell stands in the summary: shared data, and reads of 64 bytes.
fn is_telling(measured: &Measured) -> bool {
    match measured.cell.case {
        Case::OneCount => true,
        Case::SameHot | Case::SameRandom => measured.cell.block == 64,
        Case::OwnCount | Case::OneCountProcesses | Case::DiffHot => false,
    }
}

/// The cases that were measured, each once.
fn cases(measured: &[Measured]) -> Vec<Case> {
    Case::REFCOUNT
        .into_iter()
        .chain(Case::READ)
        .filter(|case| measured.iter().any(|measured| measured.cell.case == *case))
        .collect()
}

fn case_table(case: Case, measured: &[Measured]) -> Table {
    let engines = engines(case);
    let workers = match case.worker() {
        "process" => "proc",
        _ => "thr",
    };
    let mut header: Vec<String> = Vec::new();
    if !case.is_refcount() {
        header.extend(["block".to_owned(), "file".to_owned()]);
    }
    header.push(workers.to_owned());
    header.extend(engines.iter().map(|engine| (*engine).to_owned()));
    let mut table = new_table(header);
    for measured in measured
        .iter()
        .filter(|measured| measured.cell.case == case)
    {
        let cell = &measured.cell;
        let mut row = Vec::new();
        if !case.is_refcount() {
            row.extend([
                Bytes(cell.block).to_string(),
                Bytes(cell.file_bytes).to_string(),
            ]);
        }
        row.push(cell.threads.to_string());
        row.extend(engines.iter().map(|engine| {
            let Some(speed) = measured.speed(engine) else {
                return String::new();
            };
            let time = time(f64::from(cell.threads) * 1e9 / speed.median);
            match measured.ratio(engines[0], engine) {
                Some(ratio) if *engine != engines[0] => {
                    format!("{time} {:>6}", times(ratio.median))
                }
                _ => time,
            }
        }));
        table.add_row(row);
    }
    align_right(&mut table);
    table
}

/// From the least to the greatest number of workers, for each block and file.
fn scaling_table(measured: &[Measured]) -> Option<Table> {
    let bench = measured.first()?.cell.case;
    let engines = engines(bench);
    let (ours, peer) = (engines[0], engines[engines.len() - 1]);
    let mut header = vec!["case".to_owned(), "thr".to_owned()];
    if !bench.is_refcount() {
        header.insert(1, "block".to_owned());
        header.insert(2, "file".to_owned());
    }
    header.extend(engines.iter().map(|engine| (*engine).to_owned()));
    header.push(format!(
        "{}/{peer}",
        if bench.is_refcount() { ours } else { "opt." }
    ));
    let mut table = new_table(header);
    for (one, all) in scaling_pairs(measured) {
        let cell = &all.cell;
        let mut row = vec![
            cell.case.name().to_owned(),
            format!("{}>{}", one.cell.threads, cell.threads),
        ];
        if !bench.is_refcount() {
            row.insert(1, Bytes(cell.block).to_string());
            row.insert(2, Bytes(cell.file_bytes).to_string());
        }
        let scaling = |engine: &str| Some(all.speed(engine)?.median / one.speed(engine)?.median);
        row.extend(
            engines
                .iter()
                .map(|engine| scaling(engine).map_or_else(String::new, times)),
        );
        row.push(match (scaling(ours), scaling(peer)) {
            (Some(ours), Some(peer)) => format!("{:.2}", ours / peer),
            _ => String::new(),
        });
        table.add_row(row);
    }
    align_right(&mut table);
    (!table.is_empty()).then_some(table)
}

/// Cells that differ in the number of workers alone: fewest and most.
fn scaling_pairs(measured: &[Measured]) -> Vec<(&Measured, &Measured)> {
    let mut pairs: Vec<(&Measured, &Measured)> = Vec::new();
    for case in cases(measured) {
        for cell in measured
            .iter()
            .filter(|measured| measured.cell.case == case)
        {
            let same_work = |other: &Measured| {
                let threads = cell.cell.threads;
                Cell {
                    threads,
                    ..other.cell
                } == cell.cell
            };
            match pairs.iter_mut().find(|(least, _)| same_work(least)) {
                None => pairs.push((cell, cell)),
                Some((least, most)) => {
                    if cell.cell.threads < least.cell.threads {
                        *least = cell;
                    }
                    if cell.cell.threads > most.cell.threads {
                        *most = cell;
                    }
                }
            }
        }
    }
    pairs.retain(|(least, most)| least.cell.threads < most.cell.threads);
    pairs
}

/// How much the rounds differ, if there are several.
fn noise(measured: &[Measured]) -> Option<String> {
    if measured.iter().all(|measured| measured.nr_rounds() < 2) {
        return None;
    }
    let mut widest: Option<(f64, String)> = None;
    let mut all = Vec::new();
    for measured in measured {
        for engine in engines(measured.cell.case) {
            let speed = measured.speed(engine)?;
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

fn new_table(header: Vec<String>) -> Table {
    let mut table = Table::new();
    let rule = LineStyle::none().fill('─').junction('─');
    table.load_style(TableStyle::new().header_separator(rule));
    table.set_header(header);
    table
}

/// Numbers stand below each other; columns are two spaces apart (one is the table's).
fn align_right(table: &mut Table) {
    for (number, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if number == 0 { 0 } else { 1 }, 0));
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// A time in at most seven characters.
fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 999.5 => (ns, "ns"),
        ns if ns < 999.5e3 => (ns / 1e3, "µs"),
        ns if ns < 999.5e6 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// A multiple in at most six characters, up to 99999.
fn times(value: f64) -> String {
    format!("{}x", three_digits(value))
}

fn three_digits(value: f64) -> String {
    match value {
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

fn plural(n: u32) -> &'static str {
    if n == 1 { "" } else { "s" }
}

#[cfg(test)]
mod tests {
    use super::super::crew::Speeds;
    use super::*;

    /// Five engines, each twice as fast as the next, in two rounds.
    fn measured(case: Case, block: u64, threads: u32) -> Measured {
        let cell = Cell {
            case,
            block,
            file_bytes: if case.is_refcount() { 0 } else { 256 << 20 },
            threads,
        };
        let speed = |lane: u32| 1e6 * f64::from(threads) / f64::from(1 << lane);
        let of_lanes = (0..engines(case).len() as u32)
            .map(|lane| vec![speed(lane), speed(lane)])
            .collect();
        Measured::new(cell, Speeds { of_lanes })
    }

    #[test]
    fn times_and_multiples_are_short() {
        for (ns, text) in [
            (1.234, "1.23 ns"),
            (99.96, "100 ns"),
            (999.6, "1.00 µs"),
            (12_345.0, "12.3 µs"),
            (5e6, "5.00 ms"),
            (2e9, "2.00 s"),
        ] {
            assert_eq!(time(ns), text);
        }
        assert_eq!(times(0.5), "0.50x");
        assert_eq!(times(123.4), "123x");
    }

    #[test]
    fn no_line_is_wider_than_a_hundred_columns() {
        let mut cells = Vec::new();
        for case in Case::READ {
            for block in [1, 64, 32_768] {
                cells.push(measured(case, block, 1));
                cells.push(measured(case, block, 128));
            }
        }
        let mut text = report(&cells, "256 MiB in /tmp (overlayfs)");
        let counts: Vec<Measured> = Case::REFCOUNT
            .into_iter()
            .flat_map(|case| [measured(case, 0, 1), measured(case, 0, 128)])
            .collect();
        text += &report(&counts, "");
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

    #[test]
    fn scaling_pairs_the_fewest_workers_with_the_most() {
        let cells = [2, 1, 8, 4].map(|threads| measured(Case::SameHot, 64, threads));
        let pairs = scaling_pairs(&cells);
        assert_eq!(pairs.len(), 1);
        assert_eq!((pairs[0].0.cell.threads, pairs[0].1.cell.threads), (1, 8));
        let text = scaling_table(&cells).unwrap().to_string();
        assert!(text.contains("8.00x"), "{text}");
        assert!(scaling_table(&cells[..1]).is_none());
    }
}
