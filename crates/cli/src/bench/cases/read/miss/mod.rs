//! `miss-buffered`: reads of a file of which a cache holds a quarter, and the operating system all.
//!
//! Every engine has as much memory for pages: the frames of a Pagewell cache, as many boxed pages in `quick_cache`, and for `pread` a ring of
//! as many buffers, one for each read in turn. So what is read into has left the processor's caches, for all of them. What a cache
//! takes besides is Pagewell's loss alone: its capacity bounds the index too, which takes frames.

mod quick;
mod ring;

use pagewell::Cache;
use pagewell_frame::FRAME_BYTES;

use self::quick::{Pages, QuickCache};
use self::ring::{Ring, RingOp};
use super::open::{open_in, reopen};
use super::optimistic::Optimistic;
use super::reader::{ReadOp, Reader};
use crate::bench::crew::{Lane, Timed};
use crate::bench::data::{DataFile, Uniform};
use crate::bench::plan::{Cell, Settings};
use crate::failure::{Failure, chain};

/// How many times larger the file is than the cache.
const FILE_BY_CACHE: u64 = 4;

/// The caches of a stage, with the file open in them.
pub(super) struct Misses {
    cache: Cache,
    /// Keeps the pages cached between cells.
    _cached: pagewell::File,
    pages: Pages,
    /// Bytes of the frames.
    frame_bytes: usize,
    page_size: usize,
    huge_pages: bool,
}

impl Misses {
    pub(super) fn new(data: &DataFile, settings: &Settings) -> Result<Misses, Failure> {
        let capacity = settings.capacity.unwrap_or(data.bytes / FILE_BY_CACHE);
        let cache = Cache::builder()
            .capacity(capacity)
            .page_size(settings.page_size)
            .huge_pages(settings.huge_pages())
            .build()
            .map_err(|error| Failure::because("cannot make a cache", chain(&error)))?;
        let frame_bytes = cache.stats().nr_frames * FRAME_BYTES;
        Ok(Misses {
            _cached: open_in(&cache, data)?,
            cache,
            pages: Pages::new(frame_bytes / settings.page_size, settings.page_size),
            frame_bytes,
            page_size: settings.page_size,
            huge_pages: settings.huge_pages,
        })
    }

    pub(super) fn optimistic(&self, data: &DataFile) -> Result<Optimistic, Failure> {
        Ok(Optimistic(open_in(&self.cache, data)?))
    }

    pub(super) fn quick_cache(&self, data: &DataFile) -> Result<QuickCache<'_>, Failure> {
        Ok(QuickCache::new(&self.pages, reopen(data)?))
    }

    /// The lanes of a worker.
    pub(super) fn lanes<'r>(
        &'r self,
        data: &DataFile,
        cell: &Cell,
        worker: u32,
    ) -> Result<Vec<Box<dyn Lane + 'r>>, Failure> {
        let block = cell.block as usize;
        // The same positions for each engine, others for each worker.
        let positions = Uniform::new(cell.file_bytes, cell.block, u64::from(worker));
        let ring = Ring::new(
            self.frame_bytes / cell.threads as usize,
            block.next_multiple_of(self.page_size),
            self.huge_pages,
        )?;
        Ok(vec![
            read_lane(self.optimistic(data)?, positions.clone(), block),
            Box::new(Timed::with_cpu_time(RingOp::new(
                reopen(data)?,
                positions.clone(),
                ring,
                block,
            ))),
            read_lane(self.quick_cache(data)?, positions, block),
        ])
    }
}

fn read_lane<'r>(reader: impl Reader + 'r, positions: Uniform, block: usize) -> Box<dyn Lane + 'r> {
    Box::new(Timed::with_cpu_time(ReadOp::new(reader, positions, block)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::crew::Op;
    use crate::bench::data::Scratch;

    #[test]
    fn about_three_of_four_reads_miss_and_both_caches_have_as_many_pages() {
        const FILE: u64 = 8 << 20;
        const NR: u32 = 20_000;
        let data = Scratch::new(None).make(FILE, FILE, 1, |note| panic!("{note}"));
        let data = data.unwrap();
        let misses = Misses::new(&data, &Settings::quick()).unwrap();
        let positions = Uniform::new(FILE, 4096, 1);
        let reader = misses.optimistic(&data).unwrap();
        let mut op = ReadOp::new(reader, positions.clone(), 4096);
        op.batch(NR).unwrap();
        let before = misses.cache.stats().nr_fills;
        op.batch(NR).unwrap();
        let share = (misses.cache.stats().nr_fills - before) as f64 / f64::from(NR);
        assert!((0.72..0.82).contains(&share), "{share}");

        let reader = misses.quick_cache(&data).unwrap();
        let mut op = ReadOp::new(reader, positions, 4096);
        op.batch(NR).unwrap();
        // It is full. It has a few more: as many in each of its parts.
        let nr_pages = misses.frame_bytes / 4096;
        let nr = misses.pages.nr();
        assert!((nr_pages..nr_pages + nr_pages / 20).contains(&nr), "{nr}");
    }
}
