//! Records at the end of a file, which is cut when it has become large.
//!
//! Cutting is not timed: only the records are, and the syncs.

use std::sync::atomic::Ordering;

use super::blocks::Blocks;
use super::parts::{Tally, read};
use super::writer::{Appender, failed, not_synced, wrong_length};
use crate::bench::crew::{Lane, Staged, StagedOp};
use crate::bench::data::DataFile;
use crate::bench::plan::Cell;

/// What one worker appends to.
pub(super) struct Log {
    block: usize,
    /// The most bytes that the file may have.
    most: u64,
    /// Records that are appended between two looks at the clock.
    run: u64,
    is_synced: bool,
    seed: u64,
}

impl Log {
    pub(super) fn new(cell: &Cell, seed: u64) -> Log {
        let fitting = cell.file_bytes / cell.block;
        Log {
            block: cell.block as usize,
            most: cell.file_bytes,
            run: cell
                .case
                .group()
                .map_or(fitting, |group| fitting.min(u64::from(group))),
            is_synced: cell.case.group().is_some(),
            seed,
        }
    }

    /// The lane of one engine. Which record was its first since the file was cut last is in `tally`, and how many
    /// there were since.
    pub(super) fn lane<'a>(
        &'a self,
        appender: impl Appender + 'a,
        tally: &'a Tally,
    ) -> Box<dyn Lane + 'a> {
        Box::new(Staged(self.op(appender, tally)))
    }

    fn op<'a, A: Appender>(&'a self, appender: A, tally: &'a Tally) -> Appended<'a, A> {
        Appended {
            log: self,
            appender,
            blocks: Blocks::new(self.block, self.seed),
            first: 0,
            // Of what the file has nothing is this lane's: it is cut before the first record.
            in_file: u64::MAX,
            tally,
        }
    }

    /// Whether `data` has what the lane with `tally` appended, and ends there.
    pub(super) fn check(
        &self,
        data: &DataFile,
        tally: &Tally,
        ends_there: bool,
    ) -> Result<(), String> {
        // ORDERING: Relaxed; the worker's thread has ended.
        let [first, nr] = [0, 1].map(|at| tally.0[at].load(Ordering::Relaxed));
        let len = nr * self.block as u64;
        let found = data
            .file
            .metadata()
            .map_err(|error| format!("cannot ask for the size of {}: {error}", data.label))?
            .len();
        if ends_there && found != len {
            return Err(format!(
                "{nr} records of {} bytes were appended, and the file has {found} bytes",
                self.block
            ));
        }
        let mut bytes = vec![0; len as usize];
        read(data, &mut bytes, 0)?;
        let mut blocks = Blocks::new(self.block, self.seed);
        for (at, record) in (0..).zip(bytes.chunks_exact(self.block)) {
            if blocks.of(first + at) != record {
                return Err(format!(
                    "record {at} of {nr} is not the one that was appended"
                ));
            }
        }
        Ok(())
    }
}

/// One worker's records with one engine.
struct Appended<'a, A> {
    log: &'a Log,
    appender: A,
    blocks: Blocks,
    /// The number of the first record that is in the file.
    first: u64,
    /// How many are.
    in_file: u64,
    tally: &'a Tally,
}

impl<A: Appender> StagedOp for Appended<'_, A> {
    fn set_up(&mut self) -> Result<(), String> {
        let Log {
            block, most, run, ..
        } = *self.log;
        let after = self.in_file.saturating_add(run);
        if after.saturating_mul(block as u64) > most {
            self.first = match self.in_file {
                u64::MAX => 0,
                in_file => self.first + in_file,
            };
            self.in_file = 0;
            self.appender
                .cut()
                .map_err(|error| format!("a file could not be cut: {error}"))?;
            if self.log.is_synced {
                self.appender.sync().map_err(|error| not_synced(&error))?;
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn act(&mut self) -> Result<(), String> {
        let at = self.in_file * self.log.block as u64;
        let mut blocks = self.blocks.from(self.first + self.in_file);
        for _ in 0..self.log.run {
            let block = blocks.next();
            match self.appender.append(block) {
                Ok(n) if n == block.len() => {}
                Ok(n) => return Err(wrong_length(block.len(), at, n)),
                Err(error) => return Err(failed(block.len(), at, &error)),
            }
        }
        if self.log.is_synced {
            self.appender.sync().map_err(|error| not_synced(&error))?;
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<(), String> {
        self.in_file += self.log.run;
        // ORDERING: Relaxed; looked at when this thread has ended.
        self.tally.0[0].store(self.first, Ordering::Relaxed);
        self.tally.0[1].store(self.in_file, Ordering::Relaxed);
        Ok(())
    }

    fn size(&self) -> u64 {
        self.log.run
    }
}

#[cfg(test)]
mod tests {
    use super::super::writer::Pwrite;
    use super::*;
    use crate::bench::data::Scratch;
    use crate::bench::plan::Case;

    fn log(case: Case) -> Log {
        let cell = Cell {
            case,
            block: 100,
            file_bytes: 10_000,
            threads: 1,
            forks: 0,
        };
        Log::new(&cell, 5)
    }

    fn data() -> DataFile {
        let none = |note| panic!("{note}");
        Scratch::new(None).make(10_000, 10_000, 1, none).unwrap()
    }

    #[test]
    fn a_file_is_cut_when_it_is_full_and_has_the_records_since() {
        let (log, data, tally) = (log(Case::AppendCommit64), data(), Tally::default());
        let mut op = log.op(Pwrite::to_the_end(&data).unwrap(), &tally);
        for _ in 0..3 {
            op.set_up().unwrap();
            op.act().unwrap();
            op.clear().unwrap();
            // 64 of 100 that fit: a second group does not.
            assert_eq!(data.file.metadata().unwrap().len(), 6400);
            log.check(&data, &tally, true).unwrap();
        }
        assert_eq!((op.first, op.in_file, op.size()), (128, 64, 64));
    }

    #[test]
    fn what_is_missing_or_changed_is_told() {
        use std::os::unix::fs::FileExt;
        let (log, data, tally) = (log(Case::Append), data(), Tally::default());
        let mut op = log.op(Pwrite::to_the_end(&data).unwrap(), &tally);
        op.set_up().unwrap();
        op.act().unwrap();
        op.clear().unwrap();
        log.check(&data, &tally, true).unwrap();
        let mut byte = [0];
        data.file.read_exact_at(&mut byte, 5555).unwrap();
        data.file.write_all_at(&[!byte[0]], 5555).unwrap();
        assert!(
            log.check(&data, &tally, true)
                .unwrap_err()
                .contains("record 55")
        );
        data.file.write_all_at(&byte, 5555).unwrap();
        data.file.set_len(9_999).unwrap();
        assert!(
            log.check(&data, &tally, true)
                .unwrap_err()
                .contains("9999 bytes")
        );
    }
}
