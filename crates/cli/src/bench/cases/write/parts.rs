//! Writes to a part of a file: one block, or blocks at random positions, with syncs or without.
//!
//! The check afterwards does all writes of a lane once more, in a table of which block was written last at each
//! position, and compares the file with that.

use std::sync::atomic::{AtomicU64, Ordering};

use super::blocks::Blocks;
use super::writer::{Writer, failed, not_synced, wrong_length};
use crate::bench::crew::{Lane, Op, Padded, Timed};
use crate::bench::data::{DataFile, Fixed, Positions, Uniform};
use crate::bench::plan::Case;

/// What one lane has done, to be checked when the workers are through.
pub(super) type Tally = Padded<[AtomicU64; 2]>;

/// What one worker writes to.
pub(super) struct Part {
    pub(super) case: Case,
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) block: u64,
    pub(super) seed: u64,
}

impl Part {
    /// The lane of one engine. How many writes it did is in `tally`, first.
    pub(super) fn lane<'a>(
        &'a self,
        writer: impl Writer + 'a,
        tally: &'a Tally,
    ) -> Box<dyn Lane + 'a> {
        if self.case == Case::WriteHot {
            self.lane_at(Fixed(0), writer, tally)
        } else {
            self.lane_at(self.positions(), writer, tally)
        }
    }

    fn lane_at<'a>(
        &'a self,
        positions: impl Positions + 'a,
        writer: impl Writer + 'a,
        tally: &'a Tally,
    ) -> Box<dyn Lane + 'a> {
        let op = WriteOp {
            writer,
            positions,
            blocks: Blocks::new(self.block as usize, self.seed),
            nr: 0,
            tally,
        };
        match self.case.group() {
            None => Box::new(Timed::new(op)),
            Some(group) => Box::new(Timed::new(Committed { op, group })),
        }
    }

    fn positions(&self) -> Uniform {
        Uniform::new(self.len, self.block, self.seed)
    }

    /// Whether `data` has in this part what the lane with `tally` wrote.
    pub(super) fn check(&self, data: &DataFile, tally: &Tally) -> Result<(), String> {
        // ORDERING: Relaxed; the worker's thread has ended.
        let nr = tally.0[0].load(Ordering::Relaxed);
        let mut blocks = Blocks::new(self.block as usize, self.seed);
        let written = match self.case {
            Case::WriteHot => self.replay(Fixed(0), nr, &blocks),
            _ => self.replay(self.positions(), nr, &blocks),
        };
        // Some mebibytes at a time, since a block may be a byte.
        let most = ((4 << 20) / self.block).max(1);
        let mut bytes = Vec::new();
        for (chunk, turns) in (0_u64..).zip(written.chunks(most as usize)) {
            let start = self.start + chunk * most * self.block;
            bytes.resize(turns.len() * self.block as usize, 0);
            read(data, &mut bytes, start)?;
            let found = bytes.chunks_exact(self.block as usize);
            for (at, (turn, found)) in (0_u64..).zip(turns.iter().zip(found)) {
                if let Some(turn) = turn.checked_sub(1)
                    && blocks.of(u64::from(turn)) != found
                {
                    let at = start + at * self.block;
                    return Err(format!(
                        "{nr} writes were done, and the bytes at {at} are not those of the last \
                         one there"
                    ));
                }
            }
        }
        Ok(())
    }

    /// For each block of the part, which of `blocks` was written there last, counted from 1; 0 for none.
    fn replay(&self, mut positions: impl Positions, nr: u64, blocks: &Blocks) -> Vec<u8> {
        let mut written = vec![0; (self.len / self.block) as usize];
        for nr in 0..nr {
            written[(positions.next() / self.block) as usize] = blocks.turn_of(nr) as u8 + 1;
        }
        written
    }
}

/// Reads all of `bytes` from `start` on by `pread`.
pub(super) fn read(data: &DataFile, bytes: &mut [u8], start: u64) -> Result<(), String> {
    use std::os::unix::fs::FileExt;
    data.file
        .read_exact_at(bytes, start)
        .map_err(|error| format!("cannot read {} at offset {start}: {error}", data.label))
}

/// One worker's writes with one engine.
struct WriteOp<'a, W, P> {
    writer: W,
    positions: P,
    blocks: Blocks,
    nr: u64,
    tally: &'a Tally,
}

impl<W: Writer, P: Positions> Op for WriteOp<'_, W, P> {
    #[inline(never)]
    fn batch(&mut self, times: u32) -> Result<(), String> {
        let mut positions = self.positions.clone();
        let mut blocks = self.blocks.from(self.nr);
        for _ in 0..times {
            let at = positions.next();
            let block = blocks.next();
            match self.writer.write(block, at) {
                Ok(n) if n == block.len() => {}
                Ok(n) => return Err(wrong_length(block.len(), at, n)),
                Err(error) => return Err(failed(block.len(), at, &error)),
            }
        }
        self.positions = positions;
        self.nr += u64::from(times);
        // ORDERING: Relaxed; looked at when this thread has ended.
        self.tally.0[0].store(self.nr, Ordering::Relaxed);
        Ok(())
    }
}

/// So many writes, and a sync.
struct Committed<O> {
    op: O,
    group: u32,
}

impl<W: Writer, P: Positions> Op for Committed<WriteOp<'_, W, P>> {
    fn batch(&mut self, times: u32) -> Result<(), String> {
        for _ in 0..times {
            self.op.batch(self.group)?;
            self.op.writer.sync().map_err(|error| not_synced(&error))?;
        }
        Ok(())
    }

    fn size(&self) -> u64 {
        u64::from(self.group)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::super::writer::Pwrite;
    use super::*;
    use crate::bench::data::Scratch;

    /// Loses one write.
    struct Forgets {
        writer: Pwrite,
        nr: u32,
    }

    impl Writer for Forgets {
        type Error = io::Error;

        fn write(&mut self, bytes: &[u8], at: u64) -> Result<usize, io::Error> {
            self.nr += 1;
            match self.nr {
                100 => Ok(bytes.len()),
                _ => Ok(self.writer.write(bytes, at)?),
            }
        }

        fn sync(&mut self) -> Result<(), io::Error> {
            Ok(())
        }
    }

    fn part(case: Case) -> Part {
        Part {
            case,
            start: 4096,
            len: 8192,
            block: 16,
            seed: 3,
        }
    }

    fn data() -> DataFile {
        let none = |note| panic!("{note}");
        Scratch::new(None).make(16_384, 16_384, 1, none).unwrap()
    }

    fn op<'a, W: Writer>(part: &Part, writer: W, tally: &'a Tally) -> WriteOp<'a, W, Uniform> {
        WriteOp {
            writer,
            positions: part.positions(),
            blocks: Blocks::new(part.block as usize, part.seed),
            nr: 0,
            tally,
        }
    }

    #[test]
    fn what_was_written_is_found_and_what_lies_around_is_as_it_was() {
        let (part, data, tally) = (part(Case::WriteCommit64), data(), Tally::default());
        let before = std::fs::read(&data.path).unwrap();
        let writer = Pwrite::new(&data, part.start).unwrap();
        let mut op = Committed {
            op: op(&part, writer, &tally),
            group: 64,
        };
        op.batch(5).unwrap();
        assert_eq!(op.size(), 64);
        assert_eq!(tally.0[0].load(Ordering::Relaxed), 5 * 64);
        part.check(&data, &tally).unwrap();
        let after = std::fs::read(&data.path).unwrap();
        assert_eq!(after[..4096], before[..4096]);
        assert_ne!(after[4096..12_288], before[4096..12_288]);
        assert_eq!(after[12_288..], before[12_288..]);
    }

    #[test]
    fn a_write_that_was_lost_is_told() {
        let (part, data, tally) = (part(Case::WriteRandom), data(), Tally::default());
        let writer = Pwrite::new(&data, part.start).unwrap();
        let mut op = op(&part, Forgets { writer, nr: 0 }, &tally);
        op.batch(100).unwrap();
        let told = part.check(&data, &tally).unwrap_err();
        assert!(told.starts_with("100 writes were done"), "{told}");
    }

    #[test]
    fn a_short_write_and_an_error_fail_the_run() {
        struct Gives(Result<usize, &'static str>);
        impl Writer for Gives {
            type Error = &'static str;
            fn write(&mut self, _: &[u8], _: u64) -> Result<usize, &'static str> {
                self.0
            }
            fn sync(&mut self) -> Result<(), &'static str> {
                Err("disk on fire")
            }
        }
        let (part, tally) = (part(Case::WriteRandom), Tally::default());
        let run = |gives| op(&part, Gives(gives), &tally).batch(3);
        assert_eq!(run(Ok(16)), Ok(()));
        assert!(run(Ok(15)).unwrap_err().contains("wrote 15 bytes"));
        assert!(run(Err("full")).unwrap_err().ends_with("failed: full"));
        let mut op = Committed {
            op: op(&part, Gives(Ok(16)), &tally),
            group: 1,
        };
        assert_eq!(op.batch(1).unwrap_err(), "a sync failed: disk on fire");
    }
}
