//! The tables of a case: a row for each cell, a column for each engine. Many engines have two tables; both begin with the first of them.

use comfy_table::Table;

use super::cell::{MOST_BESIDE_A_FILE, columns_beside, parts};
use super::format::{align_right, new_table, time, times};
use super::measured::Measured;
use crate::bench::cases::engines;
use crate::bench::plan::{Bench, Case, Cell};

pub(super) fn cell_tables(case: Case, measured: &[Measured]) -> Vec<Table> {
    let parts = parts(engines(case));
    parts
        .iter()
        .map(|engines| cell_table(case, engines, measured))
        .collect()
}

fn cell_table(case: Case, engines: &[&str], measured: &[Measured]) -> Table {
    let of_case = measured
        .iter()
        .filter(|measured| measured.cell.case == case);
    let files = of_case.map(|measured| measured.cell.file_bytes);
    let columns = columns_beside(engines.len(), case.bench(), files);
    let workers = match case.worker() {
        "process" => "proc",
        _ => "thr",
    };
    let mut header: Vec<String> = Vec::new();
    header.extend(columns.iter().map(|column| column.name().to_owned()));
    header.push(workers.to_owned());
    for engine in engines {
        header.push((*engine).to_owned());
        header.extend(case.has_cpu_time().then(|| "cpu".to_owned()));
    }
    let mut table = new_table(header);
    for measured in measured
        .iter()
        .filter(|measured| measured.cell.case == case)
    {
        let cell = &measured.cell;
        let mut row: Vec<String> = columns.iter().map(|column| column.text(cell)).collect();
        row.push(cell.threads.to_string());
        for engine in engines {
            row.push(in_table(measured, engine, engines.len()));
            if case.has_cpu_time() {
                let cpu_ns = measured.cpu_ns(engine);
                row.push(cpu_ns.map_or_else(String::new, |cpu_ns| time(cpu_ns.median)));
            }
        }
        table.add_row(row);
    }
    align_right(&mut table);
    table
}

/// An engine's figure in a row of so many, and how many times faster the first engine is.
fn in_table(measured: &Measured, engine: &str, nr_engines: usize) -> String {
    let Cell { case, threads, .. } = measured.cell;
    let Some(figure) = measured.figure(engine) else {
        return String::new();
    };
    if case.is_share() {
        return format!("{:.1} %", 100.0 * figure.median);
    }
    let time = match case {
        Case::Writeback | Case::Sequential => format!("{:.0} MiB/s", figure.median),
        // Engines differ in their number of threads there.
        _ if case.bench() == Bench::Cold => time(1e9 / figure.median),
        _ => time(f64::from(threads) * 1e9 / figure.median),
    };
    let first = engines(case)[0];
    match measured.ratio(first, engine) {
        Some(ratio) if engine != first => {
            let width = if nr_engines > MOST_BESIDE_A_FILE {
                5
            } else {
                6
            };
            format!("{time} {:>width$}", times(ratio.median))
        }
        _ => time,
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::measured;
    use super::*;

    #[test]
    fn a_table_has_times_and_ratios_of_its_case() {
        let cells = [
            measured(Case::SameHot, 64, 2),
            measured(Case::DiffHot, 64, 2),
        ];
        let tables = cell_tables(Case::SameHot, &cells);
        let [text, more] = [0, 1].map(|nr| tables[nr].to_string());
        assert!(more.contains("optimistic") && more.contains("view"));
        let row = text.lines().find(|line| line.contains("64 B")).unwrap();
        assert!(row.contains("1.00 µs"), "{row}");
        assert!(row.contains("16.0 µs  16.0x"), "{row}");
        assert_eq!(text.matches("64 B").count(), 1);
    }
}
