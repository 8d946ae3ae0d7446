//! The possible results of a read of a cached file, kept in plain vectors.
//!
//! The model does not know which pages are cached; only the cache knows. It knows which bytes a cached
//! page can have: those that the storage has now, or had at an earlier time since the cache was
//! last told to forget the page. A read that returns one of these contents is right, and shows which of them the
//! page cannot have any more.
//!
//! It is for one thread: histories are checked step by step.

use std::collections::BTreeMap;

/// A file, the content of its storage, and the contents that a cache of it may have.
#[derive(Clone, Debug)]
pub struct NaiveFile {
    storage: Vec<u8>,
    /// The size that the cache knows; none while the file is not open.
    known: Option<u64>,
    page_size: usize,
    /// Earlier contents that a page may still have in the cache, by page number, without repetition.
    earlier: BTreeMap<u64, Vec<Vec<u8>>>,
}

impl NaiveFile {
    /// A file with these bytes that is not open.
    #[must_use]
    pub fn new(storage: Vec<u8>) -> Self {
        Self {
            storage,
            known: None,
            page_size: 1,
            earlier: BTreeMap::new(),
        }
    }

    /// The present content of the storage.
    #[must_use]
    pub fn storage(&self) -> &[u8] {
        &self.storage
    }

    /// The size that the cache knows; 0 while the file is not open.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.known.unwrap_or(0)
    }

    /// The page size that the file is open with, if it is.
    #[must_use]
    pub fn page_size(&self) -> Option<usize> {
        self.known.map(|_| self.page_size)
    }

    /// The file is opened; it was not before.
    ///
    /// # Panics
    ///
    /// When it is open.
    pub fn open(&mut self, page_size: usize) {
        assert!(self.known.is_none());
        self.page_size = page_size;
        self.known = Some(self.storage.len() as u64);
    }

    /// The last handle is gone, and so are all pages.
    pub fn close(&mut self) {
        self.known = None;
        self.earlier.clear();
    }

    /// How many bytes a read of `len` bytes from `pos` on returns if nothing goes wrong.
    #[must_use]
    pub fn len_of_read(&self, pos: u64, len: usize) -> usize {
        self.size().saturating_sub(pos).min(len as u64) as usize
    }

    /// The range of the file's bytes that is in `page`.
    fn range(&self, page: u64) -> (usize, usize) {
        let start = page * self.page_size as u64;
        let end = (start + self.page_size as u64).min(self.size());
        (start as usize, end.max(start) as usize)
    }

    /// The bytes that a fill of `page` would read now; none if the storage ends before.
    fn now(&self, page: u64) -> Option<&[u8]> {
        let (start, end) = self.range(page);
        self.storage.get(start..end)
    }

    /// Whether all pages in the `len` bytes from `pos` on could be read from the storage now.
    #[must_use]
    pub fn is_whole(&self, pos: u64, len: usize) -> bool {
        let len = self.len_of_read(pos, len) as u64;
        if len == 0 {
            return true;
        }
        let last = (pos + len - 1) / self.page_size as u64;
        self.now(last).is_some()
    }

    /// The storage is changed behind the cache's back.
    pub fn change(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        let mut after = self.storage.clone();
        change(&mut after);
        if self.known.is_some() {
            for page in 0..self.size().div_ceil(self.page_size as u64) {
                let (start, end) = self.range(page);
                let Some(before) = self.storage.get(start..end) else {
                    continue;
                };
                if after.get(start..end) != Some(before) {
                    let earlier = self.earlier.entry(page).or_default();
                    if !earlier.iter().any(|known| known == before) {
                        earlier.push(before.to_vec());
                    }
                }
            }
        }
        self.storage = after;
    }

    /// The cache forgets the pages that have any of the bytes from `from` up to `to`.
    pub fn invalidate(&mut self, from: u64, to: u64) {
        if from < to {
            let size = self.page_size as u64;
            let (first, end) = (from / size, to.div_ceil(size));
            self.earlier.retain(|page, _| !(first..end).contains(page));
        }
    }

    /// The cache adopts the present size, and forgets the pages from the one with the old or the new end
    /// on.
    pub fn refresh(&mut self) {
        let Some(old) = self.known else {
            return;
        };
        let new = self.storage.len() as u64;
        if new != old {
            let first = old.min(new) / self.page_size as u64;
            self.earlier.retain(|page, _| *page < first);
            self.known = Some(new);
        }
    }

    /// Checks that a read from `pos` on may return `got`, and learns from it.
    ///
    /// # Errors
    ///
    /// A sentence that names the fault and its place.
    pub fn check_read(&mut self, pos: u64, got: &[u8]) -> Result<(), String> {
        let mut pos = pos;
        let mut rest = got;
        while !rest.is_empty() {
            let page = pos / self.page_size as u64;
            let off = (pos % self.page_size as u64) as usize;
            let len = rest.len().min(self.page_size - off);
            self.check_part(page, off, &rest[..len])?;
            rest = &rest[len..];
            pos += len as u64;
        }
        Ok(())
    }

    fn check_part(&mut self, page: u64, off: usize, got: &[u8]) -> Result<(), String> {
        let fits = |image: &[u8]| image.get(off..off + got.len()) == Some(got);
        let is_now = self.now(page).is_some_and(fits);
        let is_earlier = match self.earlier.get_mut(&page) {
            Some(earlier) => {
                // The page was seen: it has one of these contents, or it is evicted and read in again.
                earlier.retain(|image| fits(image));
                !earlier.is_empty()
            }
            None => false,
        };
        if is_now || is_earlier {
            return Ok(());
        }
        let differs = match self.now(page) {
            Some(now) => {
                let now = now.get(off..).unwrap_or_default();
                let same = now.iter().zip(got).take_while(|(a, b)| a == b).count();
                format!("from byte {same} of the read on")
            }
            None => "and the storage does not have it".to_owned(),
        };
        Err(format!(
            "page {page}, {} bytes from {off} on: neither what the file has nor what it had \
             ({differs})",
            got.len()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> NaiveFile {
        let mut file = NaiveFile::new((0..20).collect());
        file.open(8);
        file
    }

    #[test]
    fn a_read_gives_what_the_file_has_up_to_its_end() {
        let mut file = open();
        assert_eq!(file.len_of_read(5, 100), 15);
        assert_eq!(file.len_of_read(20, 1), 0);
        assert_eq!(file.len_of_read(u64::MAX, 1), 0);
        file.check_read(5, &(5..20).collect::<Vec<u8>>()).unwrap();
        assert!(file.check_read(5, &[5, 7]).is_err());
        assert!(file.check_read(19, &[19, 0]).is_err(), "past the end");
    }

    #[test]
    fn a_change_leaves_the_old_bytes_possible_until_the_cache_forgets_or_shows_the_new() {
        let mut file = open();
        file.change(|bytes| bytes[9] = 99);
        file.check_read(8, &[8, 9]).unwrap();
        file.check_read(8, &[8, 99]).unwrap();
        assert!(file.check_read(8, &[8, 9]).is_err(), "new bytes were seen");

        file.change(|bytes| bytes[9] = 98);
        file.invalidate(15, 16);
        assert!(file.check_read(8, &[8, 99]).is_err(), "forgotten");
        file.check_read(8, &[8, 98]).unwrap();
    }

    #[test]
    fn the_known_size_changes_only_when_the_cache_looks() {
        let mut file = open();
        file.change(|bytes| bytes.truncate(10));
        assert_eq!(file.len_of_read(0, 100), 20);
        assert!(!file.is_whole(0, 20) && !file.is_whole(12, 1) && file.is_whole(0, 8));
        file.check_read(16, &[16, 17]).unwrap();
        file.refresh();
        assert_eq!(file.len_of_read(0, 100), 10);
        assert!(file.is_whole(0, 100));
        assert!(file.check_read(16, &[16]).is_err());
    }

    #[test]
    fn a_closed_file_has_no_earlier_contents() {
        let mut file = open();
        file.change(|bytes| bytes[0] = 1);
        file.close();
        file.open(4);
        assert!(file.check_read(0, &[0]).is_err());
        file.check_read(0, &[1]).unwrap();
    }
}
