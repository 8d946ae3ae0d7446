//! A cell: one row of a table; and a stage: the cells that share a file.

use super::case::Case;

/// One row of a table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::bench) struct Cell {
    pub(in crate::bench) case: Case,
    /// Bytes a read or a write; of `contig` and `alloc`, bytes of a range or block; of `fork` and `migrate`, bytes of
    /// the memory; 0 for counts.
    pub(in crate::bench) block: u64,
    /// 0 where there is no file; of `space`, bytes of the space. Files that are appended to have that many at most.
    pub(in crate::bench) file_bytes: u64,
    pub(in crate::bench) threads: u32,
    /// Forks beside the space that is migrated; 0 elsewhere.
    pub(in crate::bench) forks: u32,
}

impl Cell {
    /// The name of its case, with the number of forks where there is one.
    pub(in crate::bench) fn case_name(&self) -> String {
        match self.forks {
            0 => self.case.name().to_owned(),
            forks if self.case == Case::Forks => format!("forks-{forks}"),
            forks => format!("{}-forks-{forks}", self.case.name()),
        }
    }
}

/// The cells that read, or write, the same file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::bench) struct Stage {
    pub(in crate::bench) file_bytes: u64,
    pub(in crate::bench) cells: Vec<Cell>,
}

impl Stage {
    pub(in crate::bench) fn most_threads(&self) -> u32 {
        self.cells
            .iter()
            .map(|cell| cell.threads)
            .max()
            .unwrap_or(0)
    }

    pub(in crate::bench) fn largest_block(&self) -> u64 {
        self.cells.iter().map(|cell| cell.block).max().unwrap_or(0)
    }

    pub(in crate::bench) fn has(&self, case: Case) -> bool {
        self.cells.iter().any(|cell| cell.case == case)
    }
}

/// How many bytes of a file each of `threads` workers writes to: whole pages of the cache.
pub(in crate::bench) fn part_of(file_bytes: u64, threads: u32, page_size: usize) -> u64 {
    let page_size = page_size as u64;
    file_bytes / u64::from(threads) / page_size * page_size
}

/// A cell of no file.
pub(super) fn without_file(case: Case, block: u64, threads: u32) -> Cell {
    Cell {
        case,
        block,
        file_bytes: 0,
        threads,
        forks: 0,
    }
}
