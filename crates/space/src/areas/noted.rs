//! Noted files: the file at an address, found without a lock or a search of the areas.
//!
//! For each 2 MiB of addresses, a word names one [`FileArea`] there. A slow access to a file stores
//! the word if it is zero, and a change of the areas clears it.
//!
//! ```text
//! reader or writer                               unmap, protect, move: forget
//! 1 be a writer at work (a plain store)          a hold the structure lock for writing
//! 2 load the word: a file, and its address       b stop the writers (heavy fence, wait)
//! 3 private: leave if a copy exists              c make the words zero
//! 4 try the file (a hit, or nothing)             d release the writers
//! 5 private: leave if a copy exists now          e change the areas, and drop the file
//! 6 not at work any more (a plain store)
//! ```
//!
//! M1: a word that is not zero names a [`FileArea`] of an area of the space. It is stored with the
//! structure lock held for reading, and cleared before the area drops the value (c before e). A
//! thread is at work from before it loads the word until its last use of the value, and step b
//! waits for such threads.
//!
//! A write therefore ends before the change of the areas, or does not find the file: no write is
//! made through an unmapped or read-only area. If writers cannot be stopped, the change fails.
//! Steps 3 to 5 are in [`crate::access::files`], a and e in callers of [`NotedFiles::forget`].
//!
//! Verified by `loom_shared_write_vs_unmap` and `loom_shared_write_vs_protect`.

#![allow(unsafe_code)] // Pointer to a `FileArea` as a word.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use pagewell_sync::atomic::{AtomicU64, Ordering};

use crate::areas::file::FileArea;
use crate::areas::set::Areas;
use crate::error::{Error, ErrorKind, Op};
use crate::supply::writers::Writers;
use crate::words::pmd::Directory;

/// Words: for each 2 MiB of addresses, the noted file, or zero. The first use of a file allocates
/// them.
#[derive(Default)]
pub(crate) struct NotedFiles {
    words: OnceLock<Option<Directory>>,
}

impl NotedFiles {
    #[inline(always)]
    fn words(&self) -> Option<&Directory> {
        self.words.get()?.as_ref()
    }

    #[inline(always)]
    fn word(&self, addr: u64) -> Option<&AtomicU64> {
        self.words()?.word(addr)
    }

    /// Runs `work` with the file that [`note`](Self::note) stored for `addr`. Returns `None` if
    /// there is none, if this thread cannot be a writer at work, or if `work` returns `None`.
    #[inline(always)]
    pub(crate) fn with<R>(
        &self,
        writers: &Writers,
        addr: u64,
        work: impl FnOnce(&FileArea) -> Option<R>,
    ) -> Option<R> {
        let word = self.word(addr)?;
        // 1.
        let _at_work = writers.enter()?;
        // ORDERING: Acquire (step 2); pairs with the release in `note`.
        let file = file_of_word(word.load(Ordering::Acquire))?;
        if file.shows(addr) { work(file) } else { None }
    }

    /// Notes a file at `addr`, in a space of `nr_tables`. The caller holds the structure lock.
    pub(crate) fn note(&self, file: &Arc<FileArea>, addr: u64, nr_tables: usize) {
        // If the words cannot be allocated, every access is slow.
        let words = self.words.get_or_init(|| Directory::new(nr_tables));
        if let Some(word) = words.as_ref().and_then(|words| words.word(addr)) {
            // ORDERING: Release; publishes the value. Relaxed on failure: the word stays.
            let _ =
                word.compare_exchange(0, file_to_word(file), Ordering::Release, Ordering::Relaxed);
        }
    }

    /// Steps b to d for file areas that overlap `range`. The structure lock is held for writing.
    pub(crate) fn forget(
        &self,
        writers: &Writers,
        areas: &Areas,
        range: &Range<u64>,
        op: Op,
    ) -> Result<(), Error> {
        let Some(words) = self.words() else {
            return Ok(());
        };
        let of_files = areas.overlapping(range).filter(|area| area.file.is_some());
        let noted: Vec<&AtomicU64> = of_files
            .flat_map(|area| words.words(&area.range))
            // ORDERING: Relaxed; stored under the structure lock, held here for writing.
            .filter(|word| word.load(Ordering::Relaxed) != 0)
            .collect();
        if noted.is_empty() {
            return Ok(());
        }
        let stopped = writers.stop(|| {
            for word in noted {
                // ORDERING: Relaxed; the release of the writers publishes the zero.
                word.store(0, Ordering::Relaxed);
            }
        });
        stopped.map_err(|_| Error::at(ErrorKind::Refused, op, range.start))
    }
}

fn file_of_word<'a>(word: u64) -> Option<&'a FileArea> {
    let file = std::ptr::with_exposed_provenance::<FileArea>(word as usize);
    // SAFETY: (M1) the word is zero, or from `file_to_word` for an area of the space, and zeroed
    // with writers stopped before the area drops the value. The caller is a writer at work from
    // before it loaded the word until after it uses the result.
    unsafe { file.as_ref() }
}

fn file_to_word(file: &Arc<FileArea>) -> u64 {
    Arc::as_ptr(file).expose_provenance() as u64
}
