//! The two files of a tier: pages in *places* of equal size, and a log of their contents.
//!
//! # The log
//!
//! The log has a header of 32 bytes and entries of 48 bytes: place, length, key and checksum (sum)
//! of the page, and a checksum of the entry. The last entry for a place is the valid one. An entry
//! is written after its page, and neither is synced. So after a crash, the page of an entry may be
//! missing or incomplete, and then does not match the sum. Entries after an incomplete or damaged
//! one are ignored. A log that exceeds about twice the necessary length is replaced by a rename.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read as _, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use pagewell::io::{Backend as _, Direct, FileBackend, FileOptions, RacyBytes};

use super::{Key, Sum};

/// First bytes of a log, with the version of its format.
const MAGIC: [u8; 16] = *b"pagewell tier 3\n";

const LOG: &str = "log";

const HEADER: usize = 32;

const ENTRY: usize = 48;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) place: u32,
    /// Length of the page in bytes; 0 if the place is empty.
    pub(super) len: u32,
    pub(super) key: Key,
    pub(super) sum: Sum,
}

impl Entry {
    fn encode(&self) -> [u8; ENTRY] {
        let mut bytes = [0; ENTRY];
        bytes[..4].copy_from_slice(&self.place.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.len.to_le_bytes());
        bytes[8..24].copy_from_slice(&self.key.0);
        bytes[24..40].copy_from_slice(&self.sum.0);
        let check = check_of(&bytes);
        bytes[40..].copy_from_slice(&check);
        bytes
    }

    fn decode(bytes: &[u8; ENTRY]) -> Option<Self> {
        let word = |at: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&bytes[at..at + 4]);
            u32::from_le_bytes(word)
        };
        let half = |at: usize| {
            let mut half = [0; 16];
            half.copy_from_slice(&bytes[at..at + 16]);
            half
        };
        (bytes[40..] == check_of(bytes)).then(|| Self {
            place: word(0),
            len: word(4),
            key: Key(half(8)),
            sum: Sum(half(24)),
        })
    }
}

fn check_of(bytes: &[u8; ENTRY]) -> [u8; 8] {
    let mut check = [0; 8];
    check.copy_from_slice(&blake3::hash(&bytes[..40]).as_bytes()[..8]);
    check
}

#[derive(Debug)]
pub(super) struct PageFile {
    file: FileBackend,
    page_size: u32,
}

/// Log of a tier. The lock on the file of pages also protects the log.
#[derive(Debug)]
pub(super) struct Log {
    file: File,
    path: PathBuf,
    page_size: u32,
    max_entries: u64,
    nr_entries: u64,
}

impl Log {
    /// Replaces the log in `folder` by one with these entries, for `nr_places` places.
    pub(super) fn create(
        folder: &Path,
        page_size: u32,
        nr_places: u32,
        entries: impl Iterator<Item = Vec<Entry>>,
    ) -> io::Result<Self> {
        let path = folder.join(LOG);
        let (file, nr_entries) = write_log(&path, page_size, entries)?;
        Ok(Self {
            file,
            path,
            page_size,
            max_entries: 2 * u64::from(nr_places) + 1024,
            nr_entries,
        })
    }

    #[cfg(test)]
    pub(super) fn on(file: File) -> Self {
        Self {
            file,
            path: PathBuf::new(),
            page_size: 0,
            max_entries: 1024,
            nr_entries: 0,
        }
    }

    /// Appends `entry`. If the log is too long, first replaces it by one with `entries`.
    pub(super) fn note(
        &mut self,
        entry: Entry,
        entries: impl Iterator<Item = Vec<Entry>>,
    ) -> io::Result<()> {
        if self.nr_entries > self.max_entries {
            (self.file, self.nr_entries) = write_log(&self.path, self.page_size, entries)?;
        }
        self.file.write_all(&entry.encode())?;
        self.nr_entries += 1;
        Ok(())
    }
}

impl PageFile {
    /// Opens or creates the file of pages. Fails if another handle has it open.
    pub(super) fn open(folder: &Path, page_size: u32) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let options = FileOptions::new().create().direct(Direct::Auto);
        let file = FileBackend::open_writable(&folder.join("pages"), &options)?;
        Ok(Self { file, page_size })
    }

    pub(super) fn truncate(&self, nr_places: u32) -> io::Result<()> {
        if self.file.size()? > self.pos(nr_places) {
            self.file.set_size(self.pos(nr_places))?;
        }
        Ok(())
    }

    pub(super) fn write(&self, place: u32, bytes: &[u8]) -> io::Result<()> {
        let words = words(bytes.len());
        let memory = RacyBytes::from_words(&words).slice(0, bytes.len());
        memory.copy_from(0, bytes);
        self.file.write_at(&[memory.source()], self.pos(place))
    }

    /// Reads `len` bytes of a place, or fewer at the end of the file.
    pub(super) fn read(&self, place: u32, len: usize) -> io::Result<Vec<u8>> {
        let words = words(len);
        let memory = RacyBytes::from_words(&words).slice(0, len);
        let nr = self.file.read_at(&[memory], self.pos(place))?;
        let mut bytes = vec![0; nr];
        memory.source().copy_to(0, &mut bytes);
        Ok(bytes)
    }

    pub(super) fn page_size(&self) -> u32 {
        self.page_size
    }

    fn pos(&self, place: u32) -> u64 {
        u64::from(place) * u64::from(self.page_size)
    }
}

fn words(len: usize) -> Vec<AtomicU64> {
    (0..len.div_ceil(8)).map(|_| AtomicU64::new(0)).collect()
}

fn header(page_size: u32) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..16].copy_from_slice(&MAGIC);
    header[16..20].copy_from_slice(&page_size.to_le_bytes());
    header
}

/// Calls `each` with the entries of the log, up to an incomplete or damaged one, or until `each`
/// returns `Break`. A log that is missing, or has another page size or version, has no entries.
pub(super) fn read_log(
    folder: &Path,
    page_size: u32,
    mut each: impl FnMut(Entry) -> ControlFlow<()>,
) -> io::Result<ControlFlow<()>> {
    const END: io::Result<ControlFlow<()>> = Ok(ControlFlow::Continue(()));
    let mut file = match File::open(folder.join(LOG)) {
        Ok(file) => io::BufReader::new(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return END,
        Err(error) => return Err(error),
    };
    let mut found = [0; HEADER];
    match file.read_exact(&mut found) {
        Ok(()) if found == header(page_size) => {}
        Ok(()) => return END,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return END,
        Err(error) => return Err(error),
    }
    let mut bytes = [0; ENTRY];
    loop {
        match file.read_exact(&mut bytes) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return END,
            Err(error) => return Err(error),
        }
        let Some(mut entry) = Entry::decode(&bytes) else {
            return END;
        };
        if entry.len > page_size {
            // The length is invalid, so the place counts as empty.
            entry.len = 0;
        }
        if each(entry).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
}

/// Replaces the log by one with these entries. Returns it, open at its end, and their number.
fn write_log(
    path: &Path,
    page_size: u32,
    entries: impl Iterator<Item = Vec<Entry>>,
) -> io::Result<(File, u64)> {
    let beside = path.with_extension("new");
    let mut log = BufWriter::new(File::create(&beside)?);
    log.write_all(&header(page_size))?;
    let mut nr_entries = 0;
    for entry in entries.flatten() {
        log.write_all(&entry.encode())?;
        nr_entries += 1;
    }
    log.into_inner().map_err(io::IntoInnerError::into_error)?;
    std::fs::rename(&beside, path)?;
    Ok((OpenOptions::new().append(true).open(path)?, nr_entries))
}

#[cfg(test)]
mod tests {
    use super::super::Stored;
    use super::super::disk::restore;
    use super::*;

    fn entry(place: u32, nr: u8) -> Entry {
        Entry {
            place,
            len: 4096,
            key: Key([nr; 16]),
            sum: Sum([nr ^ 0xFF; 16]),
        }
    }

    /// Opens the files as a tier does. Returns them and the contents of the places.
    fn open(
        folder: &Path,
        page_size: u32,
        nr_places: u32,
        stored: Stored,
    ) -> io::Result<(PageFile, Log, Vec<Option<Entry>>)> {
        let pages = PageFile::open(folder, page_size)?;
        let slots = restore(folder, &pages, nr_places, stored, || false)?.expect("no stop");
        let entries = slots.entries(0, usize::MAX);
        let mut places = vec![None; nr_places as usize];
        for entry in &entries {
            places[entry.place as usize] = Some(*entry);
        }
        let log = Log::create(folder, page_size, nr_places, std::iter::once(entries))?;
        Ok((pages, log, places))
    }

    #[test]
    fn a_log_is_read_up_to_what_is_not_whole() {
        let dir = tempfile::tempdir().unwrap();
        let write = || {
            let (_pages, mut log, places) = open(dir.path(), 4096, 4, Stored::Used).unwrap();
            for entry in [entry(1, 1), entry(2, 2), entry(1, 3)] {
                log.note(entry, std::iter::empty()).unwrap();
            }
            places
        };
        assert_eq!(write(), [None; 4]);
        let all = [None, Some(entry(1, 3)), Some(entry(2, 2)), None];
        let path = dir.path().join("log");
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len(), HEADER + 3 * ENTRY);
        for len in 0..=bytes.len() {
            std::fs::write(&path, &bytes[..len]).unwrap();
            let whole = len.saturating_sub(HEADER) / ENTRY;
            let (_, _, places) = open(dir.path(), 4096, 4, Stored::Used).unwrap();
            let expected = match whole {
                0 => [None; 4],
                1 => [None, Some(entry(1, 1)), None, None],
                2 => [None, Some(entry(1, 1)), Some(entry(2, 2)), None],
                _ => all,
            };
            assert_eq!(places, expected, "{len}");
        }
        for at in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            std::fs::write(&path, &flipped).unwrap();
            let (_, _, places) = open(dir.path(), 4096, 4, Stored::Used).unwrap();
            for (place, found) in places.iter().enumerate() {
                let known = [entry(1, 1), entry(2, 2), entry(1, 3)];
                assert!(
                    found.is_none_or(|found| known.contains(&found)),
                    "{place}: {found:?}"
                );
            }
        }
    }

    #[test]
    fn a_log_of_another_page_size_is_not_believed_and_fewer_places_have_less() {
        let dir = tempfile::tempdir().unwrap();
        let (pages, mut log, _) = open(dir.path(), 4096, 4, Stored::Used).unwrap();
        log.note(entry(1, 1), std::iter::empty()).unwrap();
        log.note(entry(3, 2), std::iter::empty()).unwrap();
        assert!(open(dir.path(), 4096, 4, Stored::Used).is_err());
        drop((pages, log));
        let (pages, _, places) = open(dir.path(), 4096, 2, Stored::Used).unwrap();
        assert_eq!(places, [None, Some(entry(1, 1))]);
        drop(pages);
        let (_, _, places) = open(dir.path(), 8192, 2, Stored::Used).unwrap();
        assert_eq!(places, [None; 2]);
    }

    #[test]
    fn a_log_is_read_until_the_tier_closes() {
        let dir = tempfile::tempdir().unwrap();
        let (pages, mut log, _) = open(dir.path(), 4096, 4, Stored::Used).unwrap();
        for nr in 0..3 {
            log.note(entry(nr, 1), std::iter::empty()).unwrap();
        }
        for nr_before in 0..4 {
            let nr = std::cell::Cell::new(0);
            let stops = || nr.replace(nr.get() + 1) == nr_before;
            let slots = restore(dir.path(), &pages, 4, Stored::Used, stops).unwrap();
            assert_eq!(slots.is_some(), nr_before == 3);
        }
    }

    #[test]
    fn removed_pages_are_not_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let (pages, mut log, _) = open(dir.path(), 4096, 4, Stored::Used).unwrap();
        pages.write(1, &[7; 4096]).unwrap();
        log.note(entry(1, 1), std::iter::empty()).unwrap();
        drop((pages, log));
        let (pages, _, places) = open(dir.path(), 4096, 4, Stored::Removed).unwrap();
        assert_eq!(places, [None; 4]);
        assert_eq!(pages.file.size().unwrap(), 0);
        drop(pages);
        let (_, _, places) = open(dir.path(), 4096, 4, Stored::Used).unwrap();
        assert_eq!(places, [None; 4]);
    }

    #[test]
    fn a_log_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let (_pages, mut log, _) = open(dir.path(), 4096, 4, Stored::Used).unwrap();
        for nr in 0..10_000_u32 {
            log.note(entry(nr % 4, nr as u8), std::iter::once(vec![entry(0, 9)]))
                .unwrap();
        }
        let len = std::fs::metadata(dir.path().join("log")).unwrap().len();
        assert!(len < 2000 * ENTRY as u64, "{len}");
    }
}
