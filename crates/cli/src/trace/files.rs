//! The files that a trace names, as numbers.

use rustc_hash::FxHashMap;

/// Names and their numbers, in the order of their first appearance.
#[derive(Debug, Default)]
pub(super) struct Files {
    numbers: FxHashMap<Box<[u8]>, u32>,
    bytes: usize,
}

/// There are more files than are kept.
#[derive(Debug)]
pub(super) struct Full;

impl Files {
    /// The most files.
    const MOST: usize = 1 << 20;
    /// The most bytes of all names together.
    const MOST_BYTES: usize = 256 << 20;

    /// The number of the file called `name`.
    pub(super) fn number(&mut self, name: &[u8]) -> Result<u32, Full> {
        if let Some(number) = self.numbers.get(name) {
            return Ok(*number);
        }
        if self.numbers.len() >= Files::MOST || self.bytes + name.len() > Files::MOST_BYTES {
            return Err(Full);
        }
        let number = self.numbers.len() as u32;
        self.bytes += name.len();
        self.numbers.insert(name.into(), number);
        Ok(number)
    }

    pub(super) fn nr(&self) -> usize {
        self.numbers.len()
    }
}
