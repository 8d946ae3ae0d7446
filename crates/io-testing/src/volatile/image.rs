//! The bytes of a file, by sectors. A sector that was never written consists of zeros.

use std::collections::BTreeMap;

/// Sector size in bytes. A real device writes a sector atomically.
const SECTOR: usize = 512;

pub(super) type Sector = [u8; SECTOR];

/// Bytes and size of a file. I1: bytes at and past the size are zero, except from `put` to `trim`.
#[derive(Clone, Debug, Default)]
pub(super) struct Image {
    sectors: BTreeMap<u64, Box<Sector>>,
    size: u64,
}

impl Image {
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn read(&self, pos: u64, len: usize) -> Vec<u8> {
        let rest = self.size.saturating_sub(pos);
        let len = usize::try_from(rest).map_or(len, |rest| rest.min(len));
        let mut bytes = vec![0; len];
        for (nr, off, range) in parts(pos, len) {
            if let Some(sector) = self.sectors.get(&nr) {
                let end = off + range.len();
                bytes[range].copy_from_slice(&sector[off..end]);
            }
        }
        bytes
    }

    pub(super) fn write(&mut self, pos: u64, bytes: &[u8]) {
        for (nr, off, range) in parts(pos, bytes.len()) {
            let sector = self
                .sectors
                .entry(nr)
                .or_insert_with(|| Box::new([0; SECTOR]));
            let end = off + range.len();
            sector[off..end].copy_from_slice(&bytes[range]);
        }
        self.size = self.size.max(pos + bytes.len() as u64);
    }

    pub(super) fn set_size(&mut self, size: u64) {
        self.size = size;
        self.trim();
    }

    pub(super) fn get(&self, nr: u64) -> Sector {
        self.sectors.get(&nr).map_or([0; SECTOR], |sector| **sector)
    }

    /// Replaces sector `nr`, even past the end of the file.
    pub(super) fn put(&mut self, nr: u64, sector: Sector) {
        self.sectors.insert(nr, Box::new(sector));
    }

    /// Zeros the bytes past the end of the file.
    pub(super) fn trim(&mut self) {
        let (last, off) = (self.size / SECTOR as u64, self.size % SECTOR as u64);
        self.sectors.split_off(&(last + 1));
        if let Some(sector) = self.sectors.get_mut(&last) {
            sector[off as usize..].fill(0);
        }
    }
}

/// Iterates over the sectors of `len` bytes from `pos` on: number, offset in it, range of `0..len`.
pub(super) fn parts(
    pos: u64,
    len: usize,
) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let now = pos + done as u64;
        let off = (now % SECTOR as u64) as usize;
        let range = done..len.min(done + SECTOR - off);
        done = range.end;
        Some((now / SECTOR as u64, off, range))
    })
}
