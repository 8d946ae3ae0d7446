//! The tier itself: a thread writes pages, and readers read them.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use pagewell_sync::thread::spawn;
use tokio::sync::Semaphore;

use super::files::{Entry, Log, PageFile, open};
use super::slots::Slots;
use super::{Key, Stored, Sum};
use crate::metrics::Counters;

/// Maximum number of concurrent reads, the usual queue depth of a disk.
const MAX_READS: usize = 32;

#[derive(Debug)]
pub(crate) struct Tier {
    inner: Arc<Inner>,
    /// One permit for each concurrent read. A read blocks a thread of the runtime.
    pub(crate) reads: Arc<Semaphore>,
    /// `None` during the drop.
    sender: Option<SyncSender<(Key, Vec<u8>)>>,
    writer: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Inner {
    pages: PageFile,
    slots: Mutex<Slots>,
    counters: Arc<Counters>,
    /// Whether the disk has failed, so that no more pages are written.
    has_failed: AtomicBool,
}

impl Inner {
    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes received pages until the last sender is dropped.
    fn write_all(&self, mut log: Log, pages: &Receiver<(Key, Vec<u8>)>) {
        while let Ok((key, bytes)) = pages.recv() {
            if self.has_failed() || self.slots().has(key) {
                continue;
            }
            let Some(place) = self.slots().make_room() else {
                continue;
            };
            let entry = Entry {
                place,
                len: bytes.len() as u32,
                key,
                sum: Sum::new(key, &bytes),
            };
            // Lookups do not find the page before `fill` is called, so no reader sees a
            // half-written place.
            let written = self.pages.write(place, &bytes);
            let noted = written.and_then(|()| log.note(entry, || self.slots().entries()));
            match noted {
                Ok(()) => {
                    self.slots().fill(entry);
                    self.counters.bytes_to_disk.add(bytes.len() as u64);
                }
                Err(error) => {
                    self.slots().drop_page(place);
                    self.fail(&error);
                }
            }
        }
    }

    fn has_failed(&self) -> bool {
        // ORDERING: Relaxed; the flag is a hint, and orders no other data.
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Stops writes to the disk. The first call logs the error.
    fn fail(&self, error: &io::Error) {
        // ORDERING: Relaxed; as in `has_failed`.
        if !self.has_failed.swap(true, Ordering::Relaxed) {
            self.counters.nr_disk_failures.add(1);
            tracing::warn!(%error, "the disk tier stores no more pages");
        }
    }
}

impl Tier {
    /// Opens or creates the tier in `folder`, for at most `bytes` bytes of pages. At most
    /// `most_waiting` pages wait to be written; further ones are skipped. `stored` states whether
    /// pages that are in the folder are used.
    pub(crate) fn open(
        folder: &Path,
        bytes: u64,
        page_size: u32,
        stored: Stored,
        most_waiting: usize,
        counters: Arc<Counters>,
    ) -> io::Result<Self> {
        let nr_places = u32::try_from(bytes / u64::from(page_size))
            .ok()
            .filter(|nr| (1..1 << 30).contains(nr))
            .ok_or_else(|| {
                let text =
                    format!("a tier of {bytes} bytes is not 1 to 2^30 pages of {page_size} bytes");
                io::Error::new(io::ErrorKind::InvalidInput, text)
            })?;
        let (pages, log, entries) = open(folder, page_size, nr_places, stored)?;
        let inner = Arc::new(Inner {
            pages,
            slots: Mutex::new(Slots::new(&entries)),
            counters,
            has_failed: AtomicBool::new(false),
        });
        let (sender, waiting) = sync_channel(most_waiting);
        let of_thread = Arc::clone(&inner);
        let writer = spawn("pagewell-tier", move || of_thread.write_all(log, &waiting))?;
        Ok(Self {
            inner,
            reads: Arc::new(Semaphore::new(MAX_READS)),
            sender: Some(sender),
            writer: Some(writer),
        })
    }

    pub(crate) fn has(&self, key: Key) -> bool {
        self.inner.slots().has(key)
    }

    /// Whether a page would be stored by [`keep`](Self::keep), to which the caller must pass a
    /// copy. The result is a hint.
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

    /// Reads a page from the disk. Returns `None` if the page is missing or damaged. A damaged page
    /// is removed.
    pub(crate) fn read(&self, key: Key) -> Option<Vec<u8>> {
        let (place, len, sum) = self.inner.slots().find(key)?;
        let read = self.inner.pages.read(place, len);
        match read {
            Ok(bytes) if bytes.len() == len && Sum::new(key, &bytes) == sum => {
                self.inner.counters.bytes_from_disk.add(len as u64);
                return Some(bytes);
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "a page could not be read from the tier"),
        }
        // Either the page is damaged, or another thread has concurrently evicted it and stored
        // another page in its place.
        let mut slots = self.inner.slots();
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
        // Without a sender, the thread writes the queued pages, whose number is bounded, and ends.
        // The files can then be opened again.
        self.sender = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

#[cfg(test)]
mod tests {
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

    fn key(nr: u8) -> Key {
        Key([nr; 16])
    }

    fn settle(tier: Tier, folder: &Path, nr_pages: u64) -> Tier {
        drop(tier);
        self::tier(folder, nr_pages)
    }

    #[test]
    fn pages_are_found_again_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let mut tier = self::tier(dir.path(), 8);
        for nr in 1..5 {
            tier.keep(key(nr), vec![nr; 4096 - usize::from(nr)]);
        }
        tier = settle(tier, dir.path(), 8);
        for nr in 1..5 {
            assert_eq!(tier.read(key(nr)), Some(vec![nr; 4096 - usize::from(nr)]));
        }
        assert_eq!(tier.read(key(9)), None);
        // Flips a bit of one page in the file. Reads then find only this page missing, and it is
        // still missing after the tier is opened again.
        let place = tier.inner.slots().find(key(2)).unwrap().0;
        drop(tier);
        let path = dir.path().join("pages");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[place as usize * 4096 + 77] ^= 4;
        std::fs::write(&path, &bytes).unwrap();
        let tier = self::tier(dir.path(), 8);
        assert_eq!(tier.read(key(2)), None);
        assert!(!tier.has(key(2)));
        assert_eq!(tier.inner.counters.read().nr_disk_damaged, 1);
        assert_eq!(tier.read(key(3)), Some(vec![3; 4096 - 3]));
        drop(tier);
        // The file of pages is truncated.
        bytes.truncate(100);
        std::fs::write(&path, &bytes).unwrap();
        let tier = self::tier(dir.path(), 8);
        for nr in 1..5 {
            assert_eq!(tier.read(key(nr)), None);
        }
    }

    #[test]
    fn a_disk_that_is_full_ends_the_keeping_and_is_told_once() {
        let dir = tempfile::tempdir().unwrap();
        let (pages, _, entries) = open(dir.path(), 4096, 4, Stored::Used).unwrap();
        let full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let inner = Inner {
            pages,
            slots: Mutex::new(Slots::new(&entries)),
            counters: Arc::default(),
            has_failed: AtomicBool::new(false),
        };
        let (sender, waiting) = sync_channel(4);
        for nr in 0..4 {
            sender.send((key(nr), vec![nr; 100])).unwrap();
        }
        drop(sender);
        inner.write_all(Log::on(full), &waiting);
        assert!(inner.has_failed());
        assert!((0..4).all(|nr| !inner.slots().has(key(nr))));
        assert_eq!(inner.counters.read().nr_disk_failures, 1);
    }
}
