//! Plain memory of the process, all of it written.

use memmap2::{Advice, MmapMut};

use crate::failure::Failure;

/// Anonymous memory, private to the process.
#[derive(Debug)]
pub(in crate::bench) struct Memory {
    map: MmapMut,
}

impl Memory {
    /// So many bytes, each of them written. With `huge_pages` they are asked for, else refused.
    pub(in crate::bench) fn new(bytes: usize, huge_pages: bool) -> Result<Memory, Failure> {
        let mut map = MmapMut::map_anon(bytes)
            .map_err(|error| Failure::because("cannot map memory", error))?;
        // An advice: some systems have no huge pages.
        let _ = map.advise(if huge_pages {
            Advice::HugePage
        } else {
            Advice::NoHugePage
        });
        map.fill(0xA5);
        Ok(Memory { map })
    }

    pub(in crate::bench) fn bytes(&self) -> &[u8] {
        &self.map
    }

    pub(in crate::bench) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.map
    }
}
