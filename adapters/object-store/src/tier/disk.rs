//! Pages on the disk: a thread writes them, and readers read them.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

use pagewell_sync::thread::spawn;

use super::files::{Entry, Log, PageFile, read_log};
use super::slots::Slots;
use super::{Key, LocationHash, Stored, Sum};
use crate::metrics::Counters;
use crate::permits::Permits;

/// Maximum number of concurrent reads per runtime, the usual queue depth of a disk.
const MAX_READS: usize = 32;

/// The tables may take the capacity divided by this number.
const TABLE_SHARE_DIVISOR: u64 = 2;

#[derive(Debug)]
pub(crate) struct Tier {
    inner: Arc<Inner>,
    /// Permits for reads. A read blocks a thread of the runtime.
    pub(crate) reads: Permits,
    sender: Option<SyncSender<(Key, Vec<u8>)>>,
    writer: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Inner {
    pages: PageFile,
    nr_places: u32,
    /// Set when the log has been read. Lookups before that find nothing.
    slots: OnceLock<Mutex<Slots>>,
    counters: Arc<Counters>,
    has_failed: AtomicBool,
    /// Set by the drop of the tier, to stop the reading of the log.
    is_closing: AtomicBool,
}

/// Number of entries that are copied under one lock.
const ENTRIES_AT_ONCE: usize = 1024;

fn lock(slots: &Mutex<Slots>) -> MutexGuard<'_, Slots> {
    slots.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the contents of all places, without a common point in time.
fn entries(slots: &Mutex<Slots>, nr_places: u32) -> impl Iterator<Item = Vec<Entry>> {
    let starts = (0..nr_places as usize).step_by(ENTRIES_AT_ONCE);
    starts.map(|start| lock(slots).entries(start, ENTRIES_AT_ONCE))
}

/// Returns the table of `folder`, empty for [`Stored::Removed`], or `None` once `stops` is `true`.
pub(super) fn restore(
    folder: &Path,
    pages: &PageFile,
    nr_places: u32,
    stored: Stored,
    stops: impl Fn() -> bool,
) -> io::Result<Option<Slots>> {
    let mut slots = Slots::new(nr_places as usize);
    match stored {
        Stored::Used => {
            pages.truncate(nr_places)?;
            let read = read_log(folder, pages.page_size(), |entry| {
                if stops() {
                    return ControlFlow::Break(());
                }
                slots.restore(entry);
                ControlFlow::Continue(())
            })?;
            if read.is_break() {
                return Ok(None);
            }
        }
        Stored::Removed => pages.truncate(0)?,
    }
    slots.restored();
    Ok(Some(slots))
}

impl Inner {
    fn slots(&self) -> Option<MutexGuard<'_, Slots>> {
        self.slots.get().map(lock)
    }

    /// Reads the log, then writes received pages until the sender is dropped. If the tier is
    /// dropped while the log is read, leaves the log as it is.
    fn run(&self, folder: &Path, stored: Stored, pages: &Receiver<(Key, Vec<u8>)>) {
        match self.load(folder, stored) {
            Ok(Some((slots, log))) => self.write_all(slots, log, pages),
            Ok(None) => {}
            Err(error) => self.fail(&error),
        }
    }

    /// Reads the log, publishes the table, and replaces the log. Returns `None` if the tier is
    /// dropped.
    fn load(&self, folder: &Path, stored: Stored) -> io::Result<Option<(&Mutex<Slots>, Log)>> {
        let stops = || self.is_closing();
        let Some(slots) = restore(folder, &self.pages, self.nr_places, stored, stops)? else {
            return Ok(None);
        };
        let slots = self.slots.get_or_init(|| Mutex::new(slots));
        self.counters.nr_disk_loads.add(1);
        let entries = entries(slots, self.nr_places);
        let log = Log::create(folder, self.pages.page_size(), self.nr_places, entries)?;
        Ok(Some((slots, log)))
    }

    fn write_all(&self, slots: &Mutex<Slots>, mut log: Log, pages: &Receiver<(Key, Vec<u8>)>) {
        while let Ok((key, bytes)) = pages.recv() {
            if self.has_failed() || lock(slots).has(key) {
                continue;
            }
            let Some(place) = lock(slots).make_room() else {
                continue;
            };
            let entry = Entry {
                place,
                len: bytes.len() as u32,
                key,
                sum: Sum::new(key, &bytes),
            };
            // Lookups find the page only after `fill`, so no reader sees a half-written place.
            let written = self.pages.write(place, &bytes);
            let noted = written.and_then(|()| log.note(entry, entries(slots, self.nr_places)));
            match noted {
                Ok(()) => {
                    lock(slots).fill(entry);
                    self.counters.bytes_to_disk.add(bytes.len() as u64);
                }
                Err(error) => {
                    lock(slots).free_unfilled(place);
                    self.fail(&error);
                }
            }
        }
    }

    fn is_closing(&self) -> bool {
        // ORDERING: Relaxed; the flag is a hint, and orders no other data.
        self.is_closing.load(Ordering::Relaxed)
    }

    fn has_failed(&self) -> bool {
        // ORDERING: Relaxed; the flag is a hint, and orders no other data.
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Stops all later writes, and logs the first error.
    fn fail(&self, error: &io::Error) {
        // ORDERING: Relaxed; as in `has_failed`.
        if !self.has_failed.swap(true, Ordering::Relaxed) {
            self.counters.nr_disk_failures.add(1);
            tracing::warn!(%error, "the disk tier stores no more pages");
        }
    }
}

fn nr_places(bytes: u64, page_size: u32) -> io::Result<u32> {
    u32::try_from(bytes / u64::from(page_size))
        .ok()
        .filter(|nr| (1..1 << 30).contains(nr))
        .ok_or_else(|| {
            invalid(format!(
                "a tier of {bytes} bytes is not 1 to 2^30 pages of {page_size} bytes"
            ))
        })
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

impl Tier {
    /// Opens or creates the tier in `folder`, for at most `bytes` bytes of pages. At most
    /// `most_waiting` pages wait to be written, and further ones are skipped. `stored` states
    /// whether pages in the folder are used. Lookups find nothing until a thread has read the log.
    pub(crate) fn open(
        folder: &Path,
        bytes: u64,
        page_size: u32,
        stored: Stored,
        most_waiting: usize,
        counters: Arc<Counters>,
    ) -> io::Result<Self> {
        let nr_places = nr_places(bytes, page_size)?;
        let inner = Arc::new(Inner {
            pages: PageFile::open(folder, page_size)?,
            nr_places,
            slots: OnceLock::new(),
            counters,
            has_failed: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
        });
        let (sender, waiting) = sync_channel(most_waiting);
        let (of_thread, folder) = (Arc::clone(&inner), folder.to_owned());
        let run = move || of_thread.run(&folder, stored, &waiting);
        let writer = spawn("pagewell-tier", run)?;
        Ok(Self {
            inner,
            reads: Permits::new(MAX_READS),
            sender: Some(sender),
            writer: Some(writer),
        })
    }

    /// Returns the memory of the tables in bytes. Fails if the size of the tier is invalid, or if
    /// the tables exceed their share of `capacity`.
    pub(crate) fn table_bytes(bytes: u64, page_size: u32, capacity: u64) -> io::Result<u64> {
        let table_bytes = Slots::bytes(nr_places(bytes, page_size)? as usize) as u64;
        if table_bytes > capacity / TABLE_SHARE_DIVISOR {
            return Err(invalid(format!(
                "the tables of {bytes} bytes of pages of {page_size} bytes take {table_bytes} \
                 bytes, more than half of the capacity of {capacity} bytes"
            )));
        }
        Ok(table_bytes)
    }

    pub(crate) fn has(&self, key: Key) -> bool {
        self.inner.slots().is_some_and(|slots| slots.has(key))
    }

    /// Returns `true` if the tier has pages of any state of an object. The result is a hint.
    pub(crate) fn has_location(&self, location: LocationHash) -> bool {
        let slots = self.inner.slots();
        slots.is_some_and(|slots| slots.has_location(location))
    }

    /// Returns `true` if [`keep`](Self::keep) would store a page: a hint, which saves a copy.
    pub(crate) fn keeps(&self, key: Key) -> bool {
        !self.inner.has_failed() && !self.has(key)
    }

    /// Queues a page to be stored, unless the queue is full.
    pub(crate) fn keep(&self, key: Key, bytes: Vec<u8>) {
        if let Some(sender) = &self.sender
            && let Err(TrySendError::Full(_)) = sender.try_send((key, bytes))
        {
            self.inner.counters.nr_disk_skipped.add(1);
        }
    }

    /// Reads a page. Returns `None` if it is missing or damaged, and removes a damaged one.
    pub(crate) fn read(&self, key: Key) -> Option<Vec<u8>> {
        let (place, len, sum) = self.inner.slots()?.find(key)?;
        let read = self.inner.pages.read(place, len);
        match read {
            Ok(bytes) if bytes.len() == len && Sum::new(key, &bytes) == sum => {
                self.inner.counters.bytes_from_disk.add(len as u64);
                return Some(bytes);
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "a page could not be read from the tier"),
        }
        // The page is damaged, unless its place was concurrently reused for another page.
        let mut slots = self.inner.slots()?;
        if slots
            .find(key)
            .is_some_and(|(now, _, now_sum)| (now, now_sum) == (place, sum))
        {
            slots.drop_page(place);
            self.inner.counters.nr_disk_damaged.add(1);
        }
        None
    }
}

impl Drop for Tier {
    fn drop(&mut self) {
        // The thread stops reading the log, or writes the queued pages, whose number is bounded.
        // Its end closes the files, so that they can be opened again.
        // ORDERING: Relaxed; as in `is_closing`.
        self.inner.is_closing.store(true, Ordering::Relaxed);
        self.sender = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;

    fn tier(folder: &Path, nr_pages: u64) -> Tier {
        Tier::open(
            folder,
            nr_pages * 4096,
            4096,
            Stored::Used,
            64,
            Arc::default(),
        )
        .unwrap()
    }

    fn loaded(folder: &Path, nr_pages: u64) -> Tier {
        let tier = tier(folder, nr_pages);
        wait_until_loaded(&tier);
        tier
    }

    fn wait_until_loaded(tier: &Tier) {
        for _ in 0..60_000 {
            if tier.inner.counters.read().nr_disk_loads == 1 {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("the log is not read");
    }

    fn key(nr: u8) -> Key {
        Key([nr; 16])
    }

    fn settle(tier: Tier, folder: &Path, nr_pages: u64) -> Tier {
        drop(tier);
        loaded(folder, nr_pages)
    }

    /// Replaces the log of a tier by a pipe. Returns its path, and the bytes of the log.
    fn log_as_pipe(folder: &Path) -> (PathBuf, Vec<u8>) {
        let log = folder.join("log");
        let bytes = std::fs::read(&log).unwrap();
        std::fs::remove_file(&log).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&log).status();
        assert!(made.unwrap().success());
        (log, bytes)
    }

    #[test]
    fn pages_are_found_again_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let mut tier = loaded(dir.path(), 8);
        for nr in 1..5 {
            tier.keep(key(nr), vec![nr; 4096 - usize::from(nr)]);
        }
        tier = settle(tier, dir.path(), 8);
        for nr in 1..5 {
            assert_eq!(tier.read(key(nr)), Some(vec![nr; 4096 - usize::from(nr)]));
        }
        assert_eq!(tier.read(key(9)), None);
        // A flipped bit in the file makes only its page missing.
        let place = tier.inner.slots().unwrap().find(key(2)).unwrap().0;
        drop(tier);
        let path = dir.path().join("pages");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[place as usize * 4096 + 77] ^= 4;
        std::fs::write(&path, &bytes).unwrap();
        let tier = loaded(dir.path(), 8);
        assert_eq!(tier.read(key(2)), None);
        assert!(!tier.has(key(2)));
        assert_eq!(tier.inner.counters.read().nr_disk_damaged, 1);
        assert_eq!(tier.read(key(3)), Some(vec![3; 4096 - 3]));
        drop(tier);
        bytes.truncate(100);
        std::fs::write(&path, &bytes).unwrap();
        let tier = loaded(dir.path(), 8);
        for nr in 1..5 {
            assert_eq!(tier.read(key(nr)), None);
        }
    }

    /// The log is a pipe, so that its reader blocks: an opening that read the log would not return.
    #[test]
    fn opening_a_tier_does_not_wait_for_its_log() {
        let dir = tempfile::tempdir().unwrap();
        let tier = self::tier(dir.path(), 8);
        tier.keep(key(1), vec![1; 4096]);
        drop(tier);
        let (log, bytes) = log_as_pipe(dir.path());
        let (sender, opened) = std::sync::mpsc::channel();
        let folder = dir.path().to_owned();
        std::thread::spawn(move || sender.send(self::tier(&folder, 8)));
        let tier = opened.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(!tier.has(key(1)));
        assert_eq!(tier.read(key(1)), None);
        // This page is written only after the log was read.
        tier.keep(key(2), vec![2; 4096]);
        assert!(tier.keeps(key(2)));
        std::fs::write(&log, bytes).unwrap();
        wait_until_loaded(&tier);
        assert_eq!(tier.read(key(1)), Some(vec![1; 4096]));
        let tier = settle(tier, dir.path(), 8);
        assert_eq!(tier.read(key(1)), Some(vec![1; 4096]));
        assert_eq!(tier.read(key(2)), Some(vec![2; 4096]));
    }

    /// The log is a pipe that always has another entry: a drop that reads all of it never returns.
    #[test]
    fn drop_of_a_tier_does_not_wait_for_its_log() {
        let dir = tempfile::tempdir().unwrap();
        let tier = loaded(dir.path(), 8);
        tier.keep(key(1), vec![1; 4096]);
        drop(tier);
        let (log, bytes) = log_as_pipe(dir.path());
        let tier = self::tier(dir.path(), 8);
        let inner = Arc::clone(&tier.inner);
        let mut pipe = std::fs::OpenOptions::new().write(true).open(&log).unwrap();
        let dropper = std::thread::spawn(move || drop(tier));
        pipe.write_all(&bytes).unwrap();
        let entry = &bytes[32..];
        assert_eq!(entry.len(), 48);
        let mut nr_entries = 0;
        // The write fails when the thread has closed the log.
        while pipe.write_all(entry).is_ok() {
            nr_entries += 1;
            assert!(nr_entries < 10_000_000, "the log is read on");
        }
        dropper.join().unwrap();
        let metrics = inner.counters.read();
        assert_eq!((metrics.nr_disk_loads, metrics.nr_disk_failures), (0, 0));
        // The log was not replaced.
        assert!(!std::fs::metadata(&log).unwrap().is_file());
    }

    #[test]
    fn a_log_that_cannot_be_read_ends_the_keeping() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("log")).unwrap();
        let tier = self::tier(dir.path(), 8);
        let inner = Arc::clone(&tier.inner);
        tier.keep(key(1), vec![1; 4096]);
        drop(tier);
        assert!(inner.has_failed());
        assert_eq!(inner.counters.read().nr_disk_failures, 1);
        assert_eq!(inner.counters.read().bytes_to_disk, 0);
    }

    #[test]
    fn a_disk_that_is_full_ends_the_keeping_and_is_told_once() {
        let dir = tempfile::tempdir().unwrap();
        let full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let inner = Inner {
            pages: PageFile::open(dir.path(), 4096).unwrap(),
            nr_places: 4,
            slots: OnceLock::new(),
            counters: Arc::default(),
            has_failed: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
        };
        let (sender, waiting) = sync_channel(4);
        for nr in 0..4 {
            sender.send((key(nr), vec![nr; 100])).unwrap();
        }
        drop(sender);
        let slots = Mutex::new(Slots::new(4));
        inner.write_all(&slots, Log::on(full), &waiting);
        assert!(inner.has_failed());
        assert!((0..4).all(|nr| !lock(&slots).has(key(nr))));
        assert_eq!(inner.counters.read().nr_disk_failures, 1);
    }
}
