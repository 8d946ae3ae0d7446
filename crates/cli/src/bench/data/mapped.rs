//! A file mapped into memory, to copy from, or to.

#![allow(unsafe_code)]

use std::ops::Range;

use memmap2::{Advice, Mmap, MmapMut, MmapOptions};

use super::file::DataFile;
use crate::failure::Failure;

/// The mapping of a whole file.
#[derive(Debug)]
pub(in crate::bench) struct Mapped {
    map: Mmap,
}

impl Mapped {
    /// Maps `data`. With `huge_pages` the mapping asks for them, as the caches do.
    pub(in crate::bench) fn new(data: &DataFile, huge_pages: bool) -> Result<Mapped, Failure> {
        // SAFETY: the bytes of the mapping must not change while it exists. Nobody
        // but this process knows a temporary file, and nothing writes it once it
        // is made; of a user's file, `--file` demands that nobody changes it.
        let map = unsafe { Mmap::map(&data.file) }
            .map_err(|error| Failure::because(format_args!("cannot map {}", data.label), error))?;
        // An advice: many file systems have no huge pages.
        let _ = map.advise(if huge_pages {
            Advice::HugePage
        } else {
            Advice::NoHugePage
        });
        Ok(Mapped { map })
    }

    /// Has the system read no neighbours of a page that is missing.
    pub(in crate::bench) fn expect_random(&self) -> Result<(), Failure> {
        self.map
            .advise(Advice::Random)
            .map_err(|error| Failure::because("cannot advise the system", error))
    }

    pub(in crate::bench) fn bytes(&self) -> &[u8] {
        &self.map
    }
}

/// A part of a file, mapped to be written to.
#[derive(Debug)]
pub(in crate::bench) struct MappedMut {
    map: MmapMut,
}

impl MappedMut {
    /// Maps the bytes in `range`, which begins at a page of the system's, of `data`, which is a temporary file. Every
    /// page is written to once, with the byte that it has, so that the system knows it to be changed.
    pub(in crate::bench) fn new(
        data: &DataFile,
        range: Range<u64>,
        huge_pages: bool,
    ) -> Result<MappedMut, Failure> {
        let cannot = |error| Failure::because(format_args!("cannot map {}", data.label), error);
        let len = usize::try_from(range.end - range.start)
            .map_err(|error| Failure::because(format_args!("cannot map {}", data.label), error))?;
        let mut options = MmapOptions::new();
        options.offset(range.start).len(len);
        // SAFETY: nobody else may change the bytes of the mapping while it exists. Nobody but this process knows a
        // temporary file, and in this process each part of a file that is written to through mappings belongs to one
        // worker; the file is read for checks only when the workers are through.
        let mut map = unsafe { options.map_mut(&data.file) }.map_err(cannot)?;
        let _ = map.advise(if huge_pages {
            Advice::HugePage
        } else {
            Advice::NoHugePage
        });
        for first in map.iter_mut().step_by(4096) {
            *first = std::hint::black_box(*first);
        }
        Ok(MappedMut { map })
    }

    pub(in crate::bench) fn bytes(&mut self) -> &mut [u8] {
        &mut self.map
    }

    /// Makes what was written durable.
    pub(in crate::bench) fn sync(&self) -> std::io::Result<()> {
        self.map.flush()
    }
}
