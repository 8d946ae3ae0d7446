//! A file mapped into memory, to copy from.

#![allow(unsafe_code)]

use memmap2::{Advice, Mmap};

use super::DataFile;
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

    pub(in crate::bench) fn bytes(&self) -> &[u8] {
        &self.map
    }
}
