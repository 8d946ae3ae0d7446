//! Which file was last used where, so that an access need not ask the areas, and takes no lock.
//!
//! A word for each 2 MiB of addresses names what the area that was used there knows of its file. It is noted by a slow access, and
//! forgotten by whoever changes the areas.
//!
//! ```text
//! reader or writer                                 unmap, protect, move: forget
//! 1 be a writer at work (a plain store)            a hold the structure lock for writing
//! 2 load the word: a file, and the address in it   b stop the writers (heavy fence; wait for those at work)
//! 3 private: is there a copy? then leave           c make the words zero
//! 4 try the file (a hit, or nothing)               d let the writers go on
//! 5 private: is there a copy now? then leave       e change the areas, and let go of the file
//! 6 not at work any more (a plain store)
//! ```
//!
//! M1: a word that is not zero names what an area of the space has. It is stored with the structure lock held for reading,
//! and zero before the area lets go (c before e). Whoever is at work when it loads the word is waited for by b.
//!
//! So a write is wholly before the change of the areas, or does not find the file: nothing is written through an area that
//! has been unmapped, or made read-only. If the system refuses to stop writers, nothing is changed, and that is the error.
//!
//! Steps 1, 2 and 6, and a to d, are here; 3 to 5 in [`crate::access::files`].
//!
//! Proved by `loom_shared_write_vs_unmap`.

#![allow(unsafe_code)] // What an area knows of its file, as a word.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use pagewell_frame::refcount::RefScheme;
use pagewell_sync::atomic::{AtomicU64, Ordering};

use crate::areas::file::FileArea;
use crate::areas::set::Areas;
use crate::error::{Error, ErrorKind, Op};
use crate::supply::writers::Writers;
use crate::words::directory::Directory;

/// For each 2 MiB of addresses, the file that was last used there, or zero. Made when the first file is used.
pub(crate) struct NotedFiles<S: RefScheme> {
    words: OnceLock<Option<Directory>>,
    /// The words are of files of this kind.
    of: PhantomData<fn() -> S>,
}

impl<S: RefScheme> NotedFiles<S> {
    pub(crate) fn new() -> Self {
        Self {
            words: OnceLock::new(),
            of: PhantomData,
        }
    }

    #[inline(always)]
    fn words(&self) -> Option<&Directory> {
        self.words.get()?.as_ref()
    }

    #[inline(always)]
    fn word(&self, addr: u64) -> Option<&AtomicU64> {
        self.words()?.word(addr)
    }

    fn word_or_new(&self, addr: u64, nr_words: usize) -> Option<&AtomicU64> {
        // Without the words every access is a slow one.
        let words = self.words.get_or_init(|| Directory::new(nr_words));
        words.as_ref()?.word(addr)
    }

    /// The address's file, for as long as `work` runs, if it was noted.
    #[inline(always)]
    pub(crate) fn with<R>(
        &self,
        writers: &Writers,
        addr: u64,
        work: impl FnOnce(&FileArea<S>) -> Option<R>,
    ) -> Option<R> {
        let word = self.word(addr)?;
        // 1.
        let _at_work = writers.enter()?;
        // 2.
        // ORDERING: Acquire; pairs with the release in `note`.
        let file = file_of_word::<S>(word.load(Ordering::Acquire))?;
        if file.shows(addr) { work(file) } else { None }
    }

    /// Notes which file an area shows at `addr`, of a space with so many tables. The structure lock is held.
    pub(crate) fn note(&self, file: &Arc<FileArea<S>>, addr: u64, nr_tables: usize) {
        if let Some(word) = self.word_or_new(addr, nr_tables) {
            // ORDERING: Release; publishes the value behind the pointer. Relaxed on failure: another area of the same
            // 2 MiB was noted, and stays.
            let _ =
                word.compare_exchange(0, file_to_word(file), Ordering::Release, Ordering::Relaxed);
        }
    }

    /// Forgets which files the areas that overlap `range` show, and waits for accesses that go by it. The structure lock
    /// is held for writing.
    pub(crate) fn forget(
        &self,
        writers: &Writers,
        areas: &Areas<S>,
        range: &Range<u64>,
        op: Op,
    ) -> Result<(), Error> {
        let Some(words) = self.words() else {
            return Ok(());
        };
        let of_files = areas.overlapping(range).filter(|area| area.file.is_some());
        let noted: Vec<&AtomicU64> = of_files
            .flat_map(|area| words.words(&area.range))
            // ORDERING: Relaxed; words are stored with the structure lock held for reading.
            .filter(|word| word.load(Ordering::Relaxed) != 0)
            .collect();
        if noted.is_empty() {
            return Ok(());
        }
        let stopped = writers.stop(|| {
            for word in noted {
                // ORDERING: Relaxed; published by the end of the visit.
                word.store(0, Ordering::Relaxed);
            }
        });
        stopped.map_err(|_| Error::at(ErrorKind::Refused, op, range.start))
    }
}

impl<S: RefScheme> fmt::Debug for NotedFiles<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotedFiles").finish_non_exhaustive()
    }
}

/// The file that an area shows, as the word has it that says so for its addresses; none for zero.
fn file_of_word<'a, S: RefScheme>(word: u64) -> Option<&'a FileArea<S>> {
    let file = std::ptr::with_exposed_provenance::<FileArea<S>>(word as usize);
    // SAFETY: the word is zero or from `file_to_word`, stored for an area of the space; it is made zero while writers are
    // stopped, before the area lets go of the file. The caller is a writer at work since before it loaded the word, and does
    // not keep the answer longer (M1).
    unsafe { file.as_ref() }
}

/// The word for a file that an area shows.
fn file_to_word<S: RefScheme>(file: &Arc<FileArea<S>>) -> u64 {
    Arc::as_ptr(file).expose_provenance() as u64
}
