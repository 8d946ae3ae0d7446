//! A cell for people: its name, and the columns that say what its work is on.

use pagewell_frame::FRAME_BYTES;

use super::measured::Measured;
use crate::bench::plan::{Bench, Case, Cell};
use crate::size::Bytes;

/// A cell in a few words.
pub(in crate::bench) fn cell_name(cell: &Cell) -> String {
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
        Bench::Refcount | Bench::Pin | Bench::Contig | Bench::Alloc | Bench::Tree | Bench::Cold => {
            format!("{name}, {workers}")
        }
    }
}

/// The cases that were measured, each once.
pub(super) fn cases(measured: &[Measured]) -> Vec<Case> {
    let all = Bench::ALL.iter().flat_map(|bench| bench.cases());
    all.copied()
        .filter(|case| measured.iter().any(|measured| measured.cell.case == *case))
        .collect()
}

/// A column that says what a row's work is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Block,
    File,
    Frames,
    Forks,
    Memory,
}

impl Column {
    pub(super) fn name(self) -> &'static str {
        match self {
            Column::Block => "block",
            Column::File => "file",
            Column::Frames => "frames",
            Column::Forks => "forks",
            Column::Memory => "memory",
        }
    }

    pub(super) fn text(self, cell: &Cell) -> String {
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
pub(super) fn columns(bench: Bench) -> &'static [Column] {
    match bench {
        Bench::Read | Bench::Write => &[Column::Block, Column::File],
        Bench::Contig => &[Column::Frames],
        Bench::Space => &[Column::File],
        Bench::Fork => &[Column::Memory],
        Bench::Migrate => &[Column::Forks, Column::Memory],
        Bench::Refcount | Bench::Pin | Bench::Alloc | Bench::Tree | Bench::Cold => &[],
    }
}

/// How many engines one table has room for.
const MOST_ENGINES: usize = 6;

/// How many engines there is room for beside the size of a file.
pub(super) const MOST_BESIDE_A_FILE: usize = 5;

/// The engines of each table of those that have so many.
pub(super) fn parts<'e>(engines: &'e [&'e str]) -> Vec<Vec<&'e str>> {
    match engines {
        [first, ..] if engines.len() > MOST_ENGINES => {
            let (front, rest) = engines.split_at(MOST_BESIDE_A_FILE);
            let rest = std::iter::once(*first).chain(rest.iter().copied());
            vec![front.to_vec(), rest.collect()]
        }
        _ => vec![engines.to_vec()],
    }
}

/// Those columns, in a table of so many engines with a row for each of `files`. Many engines leave no room for a size that is the same in
/// each row; the title has it.
pub(super) fn columns_beside(
    nr_engines: usize,
    bench: Bench,
    mut files: impl Iterator<Item = u64>,
) -> Vec<Column> {
    let first = files.next();
    let is_left_out = nr_engines > MOST_BESIDE_A_FILE && files.all(|file| Some(file) == first);
    let mut columns = columns(bench).to_vec();
    columns.retain(|column| !(is_left_out && *column == Column::File));
    columns
}

/// Frames of a range.
fn nr_frames(cell: &Cell) -> u64 {
    cell.block / FRAME_BYTES as u64
}
