//! The file, open in a cache a quarter as large, and the order in which its pages are read.
//!
//! - C1. A page is read once before the file is *renewed*, and nothing of it is cached when it was renewed. So every read misses.
//! - C2. To renew, all frames are given to pages of another file. So every miss evicts.

use std::os::unix::fs::FileExt;

use pagewell::io::{Direct, MemoryBackend, Transfers};
use pagewell::{Cache, OpenOptions};
use pagewell_frame::FRAME_BYTES;

use crate::bench::data::{DataFile, Rng};
use crate::bench::plan::Settings;
use crate::failure::{Failure, chain};

/// How many times larger the file is than the cache.
const FILE_BY_CACHE: u64 = 4;
/// Bytes of the places that are read at random.
pub(super) const PAGE: usize = FRAME_BYTES;
/// Bytes that are compared at a time, and read at a time to renew.
const CHUNK: usize = 64 << 10;

/// A file that is read from its device.
pub(super) struct ColdFile {
    pub(super) data: DataFile,
    /// The first bytes of each page, to know it by.
    stamps: Vec<u64>,
    pub(super) cached: pagewell::File,
    /// Takes the frames.
    other: pagewell::File,
    cache: Cache,
    /// The pages in the order in which they are read, and how many were.
    order: Vec<u32>,
    nr_read: usize,
    rng: Rng,
}

impl ColdFile {
    pub(super) fn new(data: DataFile, settings: &Settings) -> Result<ColdFile, Failure> {
        let capacity = settings.capacity.unwrap_or(data.bytes / FILE_BY_CACHE);
        let cache = Cache::builder()
            .capacity(capacity)
            .page_size(settings.page_size)
            .huge_pages(settings.huge_pages())
            .build()
            .map_err(|error| Failure::because("cannot make a cache", chain(&error)))?;
        let cannot = |error: pagewell::Error| {
            Failure::because(
                format_args!("cannot open {} in a cache", data.label),
                chain(&error),
            )
        };
        let options = OpenOptions::new().direct(Direct::Auto);
        let cached = cache.open_with(&data.path, &options).map_err(cannot)?;
        let frame_bytes = cache.stats().nr_frames * FRAME_BYTES;
        let other = MemoryBackend::new(vec![0; frame_bytes]);
        let other = cache.open_backend(other, "other").map_err(cannot)?;
        let stamps = stamps(&data)?;
        // It was written a moment ago. An advice: the transfers are right without it.
        let _ = rustix::fs::fadvise(&data.file, 0, None, rustix::fs::Advice::DontNeed);
        let mut file = ColdFile {
            order: (0..stamps.len() as u32).collect(),
            nr_read: 0,
            rng: Rng::new(data.bytes),
            data,
            stamps,
            cached,
            other,
            cache,
        };
        file.compare()?;
        file.renew()?;
        Ok(file)
    }

    /// Whether transfers go past the operating system's cache.
    pub(super) fn is_direct(&self) -> bool {
        matches!(self.cached.transfers(), Some(Transfers::Direct { .. }))
    }

    /// Why they do not, or how they do.
    pub(super) fn transfers(&self) -> String {
        self.cached
            .transfers()
            .map_or_else(String::new, |transfers| transfers.to_string())
    }

    /// The number of fills since the cache was made.
    pub(super) fn nr_fills(&self) -> u64 {
        self.cache.stats().nr_fills
    }

    /// Pages that were not read since the file was renewed: at least one.
    pub(super) fn unread(&mut self) -> Result<&[u32], Failure> {
        if self.nr_read == self.order.len() {
            self.renew()?;
        }
        Ok(&self.order[self.nr_read..])
    }

    /// So many of [`unread`](Self::unread) were read.
    pub(super) fn note_read(&mut self, nr: usize) {
        self.nr_read = (self.nr_read + nr).min(self.order.len());
    }

    /// Sees to C1 and C2.
    pub(super) fn renew(&mut self) -> Result<(), Failure> {
        let failed =
            |error: pagewell::Error| Failure::because("the cache has failed", chain(&error));
        self.cached.invalidate(0..u64::MAX);
        let mut buf = vec![0; CHUNK];
        for pos in (0..self.other.size()).step_by(CHUNK) {
            self.other.read_at(&mut buf, pos).map_err(failed)?;
        }
        for at in (1..self.order.len()).rev() {
            let with = self.rng.below(at as u64 + 1);
            self.order.swap(at, with as usize);
        }
        self.nr_read = 0;
        Ok(())
    }

    /// Whether `bytes` begin as the file's at `pos` do, which is the beginning of a page.
    #[inline]
    pub(super) fn is_stamped(&self, bytes: &[u8], pos: u64) -> bool {
        let stamp = self.stamps.get((pos / PAGE as u64) as usize);
        bytes.first_chunk().map(|first| u64::from_le_bytes(*first)) == stamp.copied()
    }

    /// Compares all that the cache gives with what `pread` gives.
    fn compare(&self) -> Result<(), Failure> {
        let (mut ours, mut expected) = (vec![0; CHUNK], vec![0; CHUNK]);
        for pos in (0..self.data.bytes).step_by(CHUNK) {
            let len = CHUNK.min((self.data.bytes - pos) as usize);
            let (ours, expected) = (&mut ours[..len], &mut expected[..len]);
            read_exact(&self.data, expected, pos)?;
            match self.cached.read_at(ours, pos) {
                Ok(nr) if nr == len && ours == expected => {}
                Ok(nr) => {
                    return Err(Failure::Run(format!(
                        "{} of {len} bytes at {pos} are not those that pread gives",
                        nr.min(len)
                    )));
                }
                Err(error) => return Err(Failure::because("the cache has failed", chain(&error))),
            }
        }
        Ok(())
    }
}

fn read_exact(data: &DataFile, buf: &mut [u8], pos: u64) -> Result<(), Failure> {
    data.file
        .read_exact_at(buf, pos)
        .map_err(|error| Failure::because(format_args!("cannot read {}", data.label), error))
}

/// The first bytes of each page.
fn stamps(data: &DataFile) -> Result<Vec<u64>, Failure> {
    let mut stamps = Vec::with_capacity((data.bytes / PAGE as u64) as usize);
    let mut buf = vec![0; CHUNK];
    for pos in (0..data.bytes).step_by(CHUNK) {
        let buf = &mut buf[..CHUNK.min((data.bytes - pos) as usize)];
        read_exact(data, buf, pos)?;
        let firsts = buf.chunks_exact(PAGE).filter_map(|page| page.first_chunk());
        stamps.extend(firsts.map(|first| u64::from_le_bytes(*first)));
    }
    Ok(stamps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::data::Scratch;

    #[test]
    fn every_page_is_read_once_and_misses_before_the_file_is_renewed() {
        const BYTES: u64 = 4 << 20;
        let none = |note| panic!("{note}");
        let data = Scratch::new(None).make(BYTES, BYTES, 1, none).unwrap();
        let mut file = ColdFile::new(data, &Settings::quick()).unwrap();
        // Nothing is read ahead.
        let random = pagewell::Advice::Random;
        file.cached.advise(0..0, random).unwrap();
        for _ in 0..2 {
            let pages = file.unread().unwrap().to_vec();
            let before = file.nr_fills();
            assert_eq!(pages.len(), BYTES as usize / PAGE);
            let mut buf = [0; PAGE];
            for page in &pages {
                let pos = u64::from(*page) * PAGE as u64;
                assert_eq!(file.cached.read_at(&mut buf, pos).unwrap(), PAGE);
                assert!(file.is_stamped(&buf, pos) && !file.is_stamped(&buf, pos ^ 4096));
            }
            assert_eq!(file.nr_fills() - before, pages.len() as u64);
            file.note_read(pages.len());
        }
    }
}
