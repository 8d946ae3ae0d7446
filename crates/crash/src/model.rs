//! The content of a file, and the contents possible after a loss of power or of the process.
//!
//! The model keeps the file's bytes as they were at the last sync that succeeded, and after every
//! change since: its *versions*.
//!
//! - After a loss of power each byte is that of one of the versions. The size is that of a version too, or on the way
//!   from one to another ([`Model::may_have`], [`Model::may_be`]).
//! - After the death of the process alone, the system has everything that it was given: of each of its pages
//!   one version, untorn ([`Model::may_have_pages`]).
//!
//! A version also has the number of the last record of the write-ahead log that belongs to it. If the
//! log comes first, as it should, no byte of a version survives without its record.

use crate::PAGE;

/// The content of the file at some moment.
#[derive(Clone, Debug)]
struct Version {
    bytes: Vec<u8>,
    lsn: u64,
}

/// A file, and the contents that may become of it.
#[derive(Clone, Debug)]
pub struct Model {
    /// The present content.
    now: Vec<u8>,
    /// The content at the last successful sync, and after each change since.
    since: Vec<Version>,
    sizes: Sizes,
    /// The blocks that the storage is written in, in bytes: a tail that is written may be longer by zeros, up to the end of its block, until its size is set. 1 if it
    /// takes any number of bytes.
    unit: usize,
    records: Records,
}

/// The sizes that the storage may have besides those of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// Ends of pages, on the way from one size of the file to another.
    OfPages,
    /// Any size on the way: a write was cut short.
    Any,
}

/// Whether the number of a version says what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Records {
    /// All up to it.
    All,
    /// Perhaps less: something was discarded.
    Some,
}

impl Model {
    /// A file that holds `bytes`, all of it durable.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self::durable(bytes, 0)
    }

    fn durable(bytes: Vec<u8>, lsn: u64) -> Self {
        Self {
            since: vec![Version {
                bytes: bytes.clone(),
                lsn,
            }],
            now: bytes,
            sizes: Sizes::OfPages,
            unit: 1,
            records: Records::All,
        }
    }

    /// The present content.
    #[must_use]
    pub fn now(&self) -> &[u8] {
        &self.now
    }

    /// How long the file is.
    #[must_use]
    pub fn len(&self) -> usize {
        self.now.len()
    }

    /// Whether it holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.now.is_empty()
    }

    /// From now on the storage may have these sizes.
    pub fn allow_sizes(&mut self, sizes: Sizes) {
        self.sizes = sizes;
    }

    /// The same file, on a storage that is written in blocks of so many bytes.
    #[must_use]
    pub fn in_blocks(mut self, unit: usize) -> Self {
        self.unit = unit;
        self
    }

    /// `bytes` were written from `pos` on, with record `lsn` of the log.
    pub fn write(&mut self, pos: usize, bytes: &[u8], lsn: u64) {
        if bytes.is_empty() {
            return;
        }
        let end = pos + bytes.len();
        self.now.resize(self.now.len().max(end), 0);
        self.now[pos..end].copy_from_slice(bytes);
        self.changed(lsn);
    }

    /// The file was cut, or grew by zeros, to `len` bytes.
    pub fn set_len(&mut self, len: usize, lsn: u64) {
        self.now.resize(len, 0);
        self.changed(lsn);
    }

    /// The file was found to have `bytes`: something was discarded, or a change was not made after all.
    pub fn found(&mut self, bytes: Vec<u8>) {
        self.now = bytes;
        self.records = Records::Some;
        let lsn = self.last_lsn();
        self.changed(lsn);
    }

    fn changed(&mut self, lsn: u64) {
        let lsn = lsn.max(self.last_lsn());
        self.since.push(Version {
            bytes: self.now.clone(),
            lsn,
        });
    }

    fn last_lsn(&self) -> u64 {
        self.since.last().map_or(0, |version| version.lsn)
    }

    /// A sync has succeeded: everything written is durable.
    pub fn synced(&mut self) {
        let lsn = match self.records {
            Records::All => self.last_lsn(),
            Records::Some => 0,
        };
        let (sizes, unit) = (self.sizes, self.unit);
        *self = Self::durable(std::mem::take(&mut self.now), lsn);
        (self.sizes, self.unit) = (sizes, unit);
    }

    /// Whether the storage may have `bytes` from `pos` on, if the log's records up to
    /// `logged` have survived.
    #[must_use]
    pub fn may_have(&self, pos: usize, bytes: &[u8], logged: u64) -> bool {
        const CHUNK: usize = 256;
        let may_have_all = |pos: usize, bytes: &[u8]| {
            self.since
                .iter()
                .filter(|version| version.lsn <= logged)
                .any(|version| {
                    let end = pos + bytes.len();
                    version.bytes.get(pos..end).is_some_and(|was| was == bytes)
                        || (version.bytes.len() <= pos && bytes.iter().all(|byte| *byte == 0))
                })
        };
        // Most chunks are of one version.
        bytes.chunks(CHUNK).zip(0..).all(|(chunk, nr)| {
            let pos = pos + nr * CHUNK;
            may_have_all(pos, chunk)
                || chunk
                    .iter()
                    .zip(pos..)
                    .all(|(byte, pos)| may_have_all(pos, std::slice::from_ref(byte)))
        })
    }

    /// Whether the storage may have this size.
    #[must_use]
    pub fn may_be(&self, size: usize) -> bool {
        let sizes = || self.since.iter().map(|version| version.bytes.len());
        let is_between = sizes().min() <= Some(size) && Some(size) <= sizes().max();
        let is_on_the_way = self.sizes == Sizes::Any || size.is_multiple_of(PAGE);
        // What is durable, with nothing written since, has its own size and no other.
        let is_padded = self.since.len() > 1
            && sizes().any(|was| was <= size && size == was.next_multiple_of(self.unit));
        sizes().any(|was| was == size) || (is_between && is_on_the_way) || is_padded
    }

    /// Looks for the first page of `bytes`, which the storage has from byte `pos` of the file on,
    /// that is not one version of the page, and returns its first byte; none if all pages are. `pos` begins a page.
    ///
    /// A version is one that the page had when it was given to the storage, cut where the file was cut
    /// since, with zeros after that.
    #[must_use]
    pub fn may_have_pages(&self, pos: usize, bytes: &[u8]) -> Option<usize> {
        bytes
            .chunks(PAGE)
            .zip((pos..).step_by(PAGE))
            .find(|(page, pos)| !self.may_have_page(*pos, page))
            .map(|(_, pos)| pos)
    }

    fn may_have_page(&self, pos: usize, page: &[u8]) -> bool {
        (0..self.since.len()).any(|given| {
            let given_bytes = self.since[given].bytes.get(pos..).unwrap_or_default();
            let mut len = given_bytes.len().min(page.len());
            self.since[given..].iter().any(|later| {
                len = len.min(later.bytes.len().saturating_sub(pos));
                let (kept, zeros) = page.split_at(len);
                kept == &given_bytes[..len] && zeros.iter().all(|byte| *byte == 0)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_any_moment_since_the_last_sync() {
        let mut model = Model::new(vec![1; 10]);
        model.write(0, &[2; 5], 0);
        model.write(0, &[3; 2], 0);
        assert!(model.may_have(0, &[3, 1, 2, 2, 1, 1, 1], u64::MAX));
        assert!(!model.may_have(0, &[1, 1, 3], u64::MAX));
        model.synced();
        assert!(!model.may_have(0, &[2], u64::MAX));
        assert!(model.may_have(0, &[3, 3, 2, 2, 2, 1], u64::MAX));
    }

    #[test]
    fn bytes_of_which_the_log_has_no_record_are_not_those_of_the_file() {
        let mut model = Model::new(vec![1]);
        model.write(0, &[2], 7);
        assert!(model.may_have(0, &[2], 7) && !model.may_have(0, &[2], 6));
        assert!(model.may_have(0, &[1], 0));
        model.synced();
        assert!(!model.may_have(0, &[2], 6));
    }

    #[test]
    fn sizes_are_those_of_the_file_or_between_where_pages_end() {
        let mut model = Model::new(vec![0; 100]);
        model.set_len(3 * PAGE, 0);
        assert!(model.may_be(100) && model.may_be(PAGE) && model.may_be(3 * PAGE));
        assert!(!model.may_be(0) && !model.may_be(PAGE + 1) && !model.may_be(4 * PAGE));
        model.allow_sizes(Sizes::Any);
        assert!(model.may_be(PAGE + 1) && !model.may_be(99));
    }

    #[test]
    fn a_tail_in_blocks_may_be_longer_until_a_sync_and_not_after_it() {
        let mut model = Model::new(vec![1; 100]).in_blocks(512);
        assert!(model.may_be(100) && !model.may_be(512));
        model.write(600, &[2; 10], 0);
        for size in [100, 512, 610, 1024] {
            assert!(model.may_be(size), "{size}");
        }
        assert!(!model.may_be(1023) && !model.may_be(1536) && !model.may_be(0));
        assert!(model.may_have(0, &[[1; 100].to_vec(), vec![0; 412]].concat(), u64::MAX));
        model.synced();
        assert!(model.may_be(610) && !model.may_be(1024) && !model.may_be(512));
        model.write(0, &[3], 0);
        assert!(model.may_be(1024) && !model.may_be(512));
    }

    #[test]
    fn a_page_is_one_version_cut_where_the_file_was() {
        let mut model = Model::new(vec![1; 200]);
        model.write(0, &[2; 10], 0);
        model.set_len(100, 0);
        model.set_len(150, 0);
        let page = |ones: usize, zeros: usize| [vec![1; ones], vec![0; zeros]].concat();
        assert_eq!(model.may_have_pages(0, &page(100, 50)), None);
        assert_eq!(model.may_have_pages(0, &page(150, 0)), None);
        assert_eq!(model.may_have_pages(0, &page(120, 30)), Some(0));
        let mut torn = page(100, 50);
        torn[..5].fill(2);
        assert_eq!(model.may_have_pages(0, &torn), Some(0));
        torn[..10].fill(2);
        assert_eq!(model.may_have_pages(0, &torn), None);
    }
}
