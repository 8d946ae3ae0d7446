//! How fast a file larger than the limit of dirty memory gets to the storage.
//!
//! All whole blocks of one length that the file has are overwritten, from the first to the last, and the file is synced;
//! all of that is timed.
//! The engines take turns on the same file, so that all write to the same places of the device. What the cache has of
//! the file is dropped after its turn.

use std::fs::File;

use pagewell::{Cache, OpenOptions};

use super::cache::{Dirty, new_cache};
use super::engines::{FIO, PAGEWELL, PWRITE, WRITEBACK_ENGINES};
use super::parts::read;
use crate::bench::cases::fio::Fio;
use crate::bench::crew::{Schedule, Speeds, clock};
use crate::bench::data::{DataFile, Rng};
use crate::bench::plan::Settings;
use crate::failure::{Failure, chain};

/// A cache has so much for the file: a quarter of the file may be dirty then.
const CACHE_SHARE: u64 = 2;
const LEAST_CAPACITY: u64 = 1 << 20;
/// The quick run does not take longer than so many rounds.
const MOST_QUICK_ROUNDS: u32 = 5;

/// The file, and what writes it.
pub(super) struct Throughput {
    data: DataFile,
    /// Keeps the cache's file open from round to round.
    cached: pagewell::File,
    _cache: Cache,
    pwritten: File,
    fio: Option<Fio>,
    most_rounds: u32,
    /// How often the file was written, by any engine.
    nr_turns: u64,
}

impl Throughput {
    pub(super) fn new(
        data: DataFile,
        settings: &Settings,
        note: impl FnOnce(String),
    ) -> Result<Throughput, Failure> {
        let capacity = settings
            .capacity
            .unwrap_or((data.bytes / CACHE_SHARE).max(LEAST_CAPACITY));
        let cache = new_cache(capacity, Dirty::Default, settings)?;
        let cannot = |cause: &dyn std::fmt::Display| {
            Failure::because(format_args!("cannot open {}", data.label), cause)
        };
        let cached = cache
            .open_with(&data.path, &OpenOptions::new().write())
            .map_err(|error| cannot(&chain(&error)))?;
        let pwritten = std::fs::OpenOptions::new()
            .write(true)
            .open(&data.path)
            .map_err(|error| cannot(&error))?;
        let fio = Fio::find();
        if fio.is_none() {
            note("fio is not installed: writeback is not compared with it".to_owned());
        }
        Ok(Throughput {
            data,
            cached,
            _cache: cache,
            pwritten,
            fio,
            most_rounds: if settings.quick {
                MOST_QUICK_ROUNDS
            } else {
                u32::MAX
            },
            nr_turns: 0,
        })
    }

    pub(super) fn data(&self) -> &DataFile {
        &self.data
    }

    /// MiB a second, for each engine that is there.
    pub(super) fn run(&mut self, block: usize, schedule: &Schedule) -> Result<Speeds, Failure> {
        let nr_engines = WRITEBACK_ENGINES.len() - usize::from(self.fio.is_none());
        let mut of_lanes = vec![Vec::new(); nr_engines];
        let rounds = schedule.rounds.min(self.most_rounds);
        // One more, which is not counted: the first use of the cache's memory.
        self.turn(PAGEWELL, block)?;
        for step in schedule.steps() {
            let Some(speeds) = of_lanes.get_mut(step.lane as usize) else {
                continue;
            };
            if step.round < rounds {
                speeds.push(self.turn(WRITEBACK_ENGINES[step.lane as usize], block)?);
            }
        }
        Ok(Speeds::of(of_lanes))
    }

    /// Has `engine` write the file once; MiB a second.
    fn turn(&mut self, engine: &str, block: usize) -> Result<f64, Failure> {
        self.nr_turns += 1;
        let bytes = self.data.bytes / block as u64 * block as u64;
        let mut content = Content::new(block, bytes, self.nr_turns);
        let failed = |cause: String| Failure::because(engine, cause);
        let begin = clock::now_ns();
        let ns = match engine {
            PAGEWELL => {
                self.write(&mut content)
                    .map_err(|error| failed(chain(&error)))?;
                clock::now_ns() - begin
            }
            PWRITE => {
                self.pwrite(&mut content)
                    .map_err(|error| failed(error.to_string()))?;
                clock::now_ns() - begin
            }
            _ => match &self.fio {
                Some(fio) => fio.write(&self.data, bytes, block).map_err(failed)?,
                None => return Err(failed("not installed".to_owned())),
            },
        };
        match engine {
            // Its bytes are its own; it says how many it wrote.
            FIO => {}
            _ => self.check(&mut content).map_err(failed)?,
        }
        Ok(bytes as f64 / (1 << 20) as f64 / (ns.max(1) as f64 / 1e9))
    }

    fn write(&self, content: &mut Content) -> Result<(), pagewell::Error> {
        let mut at = 0;
        while let Some(block) = content.block(at) {
            at += self.cached.write_at(block, at)? as u64;
        }
        self.cached.sync_all()?;
        // The others change the file behind the cache's back.
        self.cached.invalidate(0..self.data.bytes);
        Ok(())
    }

    fn pwrite(&self, content: &mut Content) -> rustix::io::Result<()> {
        let mut at = 0;
        while let Some(block) = content.block(at) {
            at += rustix::io::pwrite(&self.pwritten, block, at)? as u64;
        }
        rustix::fs::fsync(&self.pwritten)
    }

    /// Whether the file is what was written.
    fn check(&self, content: &mut Content) -> Result<(), String> {
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(block) = content.block(at) {
            found.resize(block.len(), 0);
            read(&self.data, &mut found, at)?;
            if block != found {
                return Err(format!(
                    "the bytes from {at} on are not those that were written"
                ));
            }
            at += block.len() as u64;
        }
        Ok(())
    }
}

/// What is written: the same pseudo-random bytes in each block, with where that is in its first ones.
struct Content {
    block: Vec<u8>,
    /// How many bytes there are in all.
    bytes: u64,
}

impl Content {
    fn new(len: usize, bytes: u64, seed: u64) -> Content {
        let mut rng = Rng::new(seed);
        let mut block = vec![0; len];
        for word in block.chunks_mut(8) {
            word.copy_from_slice(&rng.next().to_le_bytes()[..word.len()]);
        }
        Content { block, bytes }
    }

    /// The block at `at`; none at the end.
    fn block(&mut self, at: u64) -> Option<&[u8]> {
        let len = self.bytes.saturating_sub(at).min(self.block.len() as u64) as usize;
        let block = self
            .block
            .get_mut(..len)
            .filter(|block| !block.is_empty())?;
        if let Some(stamp) = block.first_chunk_mut() {
            *stamp = at.to_le_bytes();
        }
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::bench::data::Scratch;

    #[test]
    fn every_engine_writes_all_of_the_file_in_every_round() {
        let none = |note| panic!("{note}");
        let data = Scratch::new(None).make_named(3_000_000, 1, none).unwrap();
        let mut throughput = Throughput::new(data, &Settings::quick(), |_| ()).unwrap();
        let schedule = Schedule::new(WRITEBACK_ENGINES.len(), 2, Duration::from_millis(2));
        let speeds = throughput.run(1 << 20, &schedule).unwrap();
        assert!(speeds.of_lanes.len() >= 2);
        for lane in speeds.of_lanes {
            assert!(lane.len() == 2 && lane.iter().all(|speed| *speed > 0.0));
        }
    }

    #[test]
    fn a_block_that_is_not_what_was_written_is_told() {
        use std::os::unix::fs::FileExt;
        let none = |note| panic!("{note}");
        let data = Scratch::new(None).make_named(300_000, 1, none).unwrap();
        let throughput = Throughput::new(data, &Settings::quick(), |_| ()).unwrap();
        let mut content = Content::new(65_536, 300_000, 2);
        throughput.write(&mut content).unwrap();
        throughput.check(&mut content).unwrap();
        // A block that was written in the place of another.
        let block = content.block(0).unwrap().to_vec();
        throughput.data.file.write_all_at(&block, 65_536).unwrap();
        let told = throughput.check(&mut content).unwrap_err();
        assert!(told.contains("from 65536 on"), "{told}");
    }
}
