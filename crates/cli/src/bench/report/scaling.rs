//! How the engines scale with the number of workers.

use comfy_table::Table;

use super::cell::{cases, columns_beside, parts};
use super::format::{align_right, new_table, times};
use super::measured::Measured;
use crate::bench::cases::engines;
use crate::bench::plan::{Bench, Case, Cell};

/// Two engines whose scaling is compared, and what to call that.
fn compared_scaling(bench: Bench) -> Option<(&'static str, &'static str, &'static str)> {
    match bench {
        Bench::Refcount => Some(("lock-bit", "bare", "lock-bit/bare")),
        Bench::Read => Some(("optimistic", "mmap", "opt./mmap")),
        Bench::Write => Some(("pagewell", "mmap", "pagewell/mmap")),
        Bench::Contig => Some(("chunked", "limit", "chunked/limit")),
        Bench::Tree => Some(("views", "mmap", "views/mmap")),
        Bench::Space => Some(("space", "memcpy", "space/memcpy")),
        Bench::Pin => Some(("announced", "counted", "announced/counted")),
        Bench::Alloc | Bench::Fork | Bench::Migrate | Bench::Cold => None,
    }
}

/// From the least to the greatest number of workers, for each block and file: a table for the cases that have their engines in common.
pub(super) fn scaling_tables(measured: &[Measured]) -> Vec<Table> {
    let mut tables = Vec::new();
    // What is no speed does not scale.
    let mut cases = cases(measured);
    cases.retain(|case| !case.is_share());
    while let Some(&first) = cases.first() {
        let is_of_table = |case: Case| engines(case) == engines(first);
        for engines in parts(engines(first)) {
            tables.extend(scaling_table(
                first,
                &engines,
                scaling_pairs(measured)
                    .into_iter()
                    .filter(|(one, _)| is_of_table(one.cell.case)),
            ));
        }
        cases.retain(|&case| !is_of_table(case));
    }
    tables
}

/// The table of pairs whose cases have the engines of `case`.
fn scaling_table<'m>(
    case: Case,
    engines: &[&str],
    pairs: impl Iterator<Item = (&'m Measured, &'m Measured)>,
) -> Option<Table> {
    let bench = case.bench();
    let compared = compared_scaling(bench)
        .filter(|(ours, peer, _)| engines.contains(ours) && engines.contains(peer));
    let pairs: Vec<_> = pairs.collect();
    let files = pairs.iter().map(|(_, all)| all.cell.file_bytes);
    let columns = columns_beside(engines.len(), bench, files);
    let mut header = vec!["case".to_owned()];
    header.extend(columns.iter().map(|column| column.name().to_owned()));
    header.push("thr".to_owned());
    header.extend(engines.iter().map(|engine| (*engine).to_owned()));
    header.extend(compared.iter().map(|(_, _, name)| (*name).to_owned()));
    let mut table = new_table(header);
    for (one, all) in pairs {
        let cell = &all.cell;
        let mut row = vec![cell.case.name().to_owned()];
        row.extend(columns.iter().map(|column| column.text(cell)));
        row.push(format!("{}>{}", one.cell.threads, cell.threads));
        let scaling = |engine: &str| Some(all.figure(engine)?.median / one.figure(engine)?.median);
        row.extend(
            engines
                .iter()
                .map(|engine| scaling(engine).map_or_else(String::new, times)),
        );
        row.extend(
            compared
                .iter()
                .map(|(ours, peer, _)| match (scaling(ours), scaling(peer)) {
                    (Some(ours), Some(peer)) => format!("{:.2}", ours / peer),
                    _ => String::new(),
                }),
        );
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

#[cfg(test)]
mod tests {
    use super::super::sample::measured;
    use super::*;

    #[test]
    fn scaling_pairs_the_fewest_workers_with_the_most() {
        let cells = [2, 1, 8, 4].map(|threads| measured(Case::SameHot, 64, threads));
        let pairs = scaling_pairs(&cells);
        assert_eq!(pairs.len(), 1);
        assert_eq!((pairs[0].0.cell.threads, pairs[0].1.cell.threads), (1, 8));
        let tables = scaling_tables(&cells);
        // The engines are too many for one.
        assert_eq!(tables.len(), 2);
        let text = tables[0].to_string();
        assert!(text.contains("8.00x"), "{text}");
        assert!(scaling_tables(&cells[..1]).is_empty());
    }

    #[test]
    fn cases_with_other_engines_have_a_table_of_their_own_and_shares_have_none() {
        let both = |case| [1, 2].map(|threads| measured(case, 4096, threads));
        let mut cells = Vec::from(both(Case::SameRandom));
        cells.extend(both(Case::MissBuffered));
        cells.extend(both(Case::DiffHot));
        let tables: Vec<String> = scaling_tables(&cells)
            .iter()
            .map(Table::to_string)
            .collect();
        assert_eq!(tables.len(), 3);
        assert!(tables[0].contains("diff-hot") && tables[0].contains("opt./mmap"));
        assert!(tables[1].contains("batch-16") && !tables[1].contains("mmap"));
        assert!(tables[2].contains("quick_cache") && !tables[2].contains("mmap"));
        assert!(scaling_tables(&both(Case::Fragmentation)).is_empty());
    }
}
