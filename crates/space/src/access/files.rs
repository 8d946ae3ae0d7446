//! Accesses of areas that show files.
//!
//! # Without a lock
//!
//! A word for each 2 MiB of addresses names the file that was last used there, so that an access need not ask the areas
//! ([`Files`]). It is noted by a slow access, and forgotten by whoever changes the areas.
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
//! Step 5. Table and entry are as they were in step 3, so there was no copy when the file was read: the read has what the
//! area showed at that moment. (A private area writes through its tables, and not here.)
//!
//! # With the structure lock
//!
//! The same tries, repeated. What they need is got with no lock in hand ([`pagewell_cache::MappedFile`]), and then the
//! areas are asked again.
//!
//! # The first write to a page of a private area
//!
//! Under the claim of the empty entry the page is copied from the file, at one moment of it, and changed. From then on it is
//! an anonymous page. What was read before, by whoever writes, is in the copy: the file is at least as new as then. Against
//! cuts of the file: [`crate::areas::cut`].
//!
//! Proved by `loom_shared_write_vs_cut`, `loom_shared_write_vs_unmap`, `loom_slow_shared_write_vs_unmap`,
//! `loom_missing_shared_write_vs_unmap`, `loom_private_write_vs_write_to_the_file`, `loom_private_read_vs_first_write`;
//! by the histories of `pagewell/tests/space_files.rs`.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use pagewell_cache::{Spare, Tried};
use pagewell_frame::FrameRef;
use pagewell_frame::refcount::RefScheme;
use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::bytes::RacyBytes;
use pagewell_sync::read;

use crate::access::read::SHORT_BYTES;
use crate::areas::area::{Area, Areas};
use crate::areas::file::{Fault, FileArea, Sharing, of_file};
use crate::error::{Error, ErrorKind, Op};
use crate::mm::mm::Inner;
use crate::supply::view;
use crate::tables::table::look;
use crate::words::claim;
use crate::words::directory::Directory;
use crate::words::geometry::{TABLE_BYTES, TABLE_SHIFT, entry_of, table_of};
use crate::words::pmd::Pmd;
use crate::words::pte::{Pte, State};

/// For each 2 MiB of addresses, the file that was last used there, or zero. Made when the first file is used.
#[derive(Default)]
pub(crate) struct Files(OnceLock<Option<Directory>>);

impl Files {
    #[inline(always)]
    fn words(&self) -> Option<&[AtomicU64]> {
        self.0.get()?.as_deref()
    }

    #[inline(always)]
    fn word(&self, addr: u64) -> Option<&AtomicU64> {
        self.words()?.get((addr >> TABLE_SHIFT) as usize)
    }

    fn word_or_new(&self, addr: u64, len: usize) -> Option<&AtomicU64> {
        // Without the words every access is a slow one.
        let words = self.0.get_or_init(|| Directory::new(len));
        words.as_ref()?.get((addr >> TABLE_SHIFT) as usize)
    }
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").finish_non_exhaustive()
    }
}

/// What came of a slow read, but for getting pages of files.
pub(crate) enum Slow<S: RefScheme> {
    /// So many bytes were read.
    Done(usize),
    /// The page is one of a file, and not in the cache.
    Missing(Fault<S>),
}

/// What came of looking at a page of a file for an entry that is empty.
pub(crate) enum Copied<S: RefScheme, R = ()> {
    Done(R),
    /// Something has changed meanwhile.
    Again,
    Missing(Fault<S>),
}

/// What a private area has of a page, as long as it does not change.
#[derive(Clone, Copy, PartialEq, Eq)]
struct NoCopy {
    pmd: Pmd,
    entry: Option<Pte>,
}

impl<S: RefScheme> Inner<S> {
    /// The address's file, for as long as `work` runs, if it was noted.
    #[inline(always)]
    fn with_file<R>(&self, addr: u64, work: impl FnOnce(&FileArea<S>) -> Option<R>) -> Option<R> {
        let word = self.files.word(addr)?;
        // 1.
        let _at_work = self.shared.enter_writer()?;
        // 2.
        // ORDERING: Acquire; pairs with the release in `note_file`.
        let file = view::file_of_word::<S>(word.load(Ordering::Acquire))?;
        if file.shows(addr) { work(file) } else { None }
    }

    /// Notes which file an area shows at `addr`. The structure lock is held.
    fn note_file(&self, file: &Arc<FileArea<S>>, addr: u64) {
        if let Some(word) = self.files.word_or_new(addr, self.directory.len()) {
            // ORDERING: Release; publishes the value behind the pointer. Relaxed on failure: another area of the same
            // 2 MiB was noted, and stays.
            let _ = word.compare_exchange(
                0,
                view::file_to_word(file),
                Ordering::Release,
                Ordering::Relaxed,
            );
        }
    }

    /// Forgets which files the areas that overlap `range` show, and waits for accesses that go by it. The structure lock
    /// is held for writing.
    pub(crate) fn forget_files(
        &self,
        areas: &Areas<S>,
        range: &Range<u64>,
        op: Op,
    ) -> Result<(), Error> {
        let Some(words) = self.files.words() else {
            return Ok(());
        };
        let of_files = areas.overlapping(range).filter(|area| area.file.is_some());
        let noted: Vec<&AtomicU64> = of_files
            .flat_map(|area| {
                let first = table_of(area.range.start) as usize;
                &words[first..area.range.end.div_ceil(TABLE_BYTES) as usize]
            })
            // ORDERING: Relaxed; words are stored with the structure lock held for reading.
            .filter(|word| word.load(Ordering::Relaxed) != 0)
            .collect();
        if noted.is_empty() {
            return Ok(());
        }
        let stopped = self.shared.stop_writers(|| {
            for word in noted {
                // ORDERING: Relaxed; published by the end of the visit.
                word.store(0, Ordering::Relaxed);
            }
        });
        stopped.map_err(|_| Error::at(ErrorKind::Refused, op, range.start))
    }

    /// What a private area has of the page at `addr`, if that is no copy.
    #[inline(always)]
    fn no_copy(&self, file: &FileArea<S>, addr: u64) -> Option<NoCopy> {
        let pmd = Self::look(self.pmd_word(addr)?);
        if !pmd.is_present() {
            return Some(NoCopy { pmd, entry: None });
        }
        let order = u32::from(file.order().get());
        if pmd.order() != order {
            return None;
        }
        let entry = look(view::entry(
            &self.shared.view,
            pmd.frame(),
            entry_of(addr, order),
        ));
        let is_empty = matches!(entry.state(), State::Empty);
        is_empty.then_some(NoCopy {
            pmd,
            entry: Some(entry),
        })
    }

    /// Whether a private area shows the file's own page at `addr`, as far as can be seen.
    pub(crate) fn shows_file(&self, file: &FileArea<S>, addr: u64) -> bool {
        self.no_copy(file, addr).is_some()
    }

    /// Fills a short `buf` from within the page of `addr`, if that is a hit of a file that was noted. If not, `buf` may
    /// have been written to. The numbers are those of the module's text.
    ///
    /// Every instruction counts, as in [`read_short`](Self::read_short).
    #[inline(always)]
    fn read_file_short(&self, addr: u64, buf: &mut [u8]) -> bool {
        if buf.len() > SHORT_BYTES {
            return false;
        }
        let is_read = self.with_file(addr, |file| Some(self.read_noted(file, addr, buf)));
        is_read == Some(true)
    }

    /// What [`read_short`](Self::read_short) could not read: of a file, or by [`read_pages`](Self::read_pages). Apart, so that
    /// the former is in the caller's code alone, and one call is all that is beside it.
    #[inline(never)]
    pub(crate) fn read_other(&self, addr: u64, buf: &mut [u8]) -> Result<(), Error> {
        if self.read_file_short(addr, buf) {
            return Ok(());
        }
        self.read_pages(addr, buf)
    }

    /// Fills the part of `buf` that is in the page of `addr`, as [`read_file_short`](Self::read_file_short); returns how much
    /// that is.
    #[inline]
    pub(crate) fn read_file(&self, addr: u64, buf: &mut [u8]) -> Option<usize> {
        self.with_file(addr, |file| {
            let len = buf.len().min(file.bytes_to_page_end(addr));
            self.read_noted(file, addr, &mut buf[..len]).then_some(len)
        })
    }

    /// Steps 3 to 5; a read over the end of the page is no hit.
    #[inline(always)]
    fn read_noted(&self, file: &FileArea<S>, addr: u64, buf: &mut [u8]) -> bool {
        if !file.protection.allows_reads() {
            return false;
        }
        let pos = file.pos_of(addr);
        if file.sharing == Sharing::Shared {
            return file.file().try_read_hit(pos, buf);
        }
        let Some(before) = self.no_copy(file, addr) else {
            return false;
        };
        // A hit ends with an acquiring load, which keeps those of step 5 from being done before.
        file.file().try_read_hit(pos, buf) && self.no_copy(file, addr) == Some(before)
    }

    /// As [`read_locked`](Self::read_locked), until it is done.
    #[cold]
    pub(crate) fn read_slowly(&self, addr: u64, buf: &mut [u8]) -> Result<usize, Error> {
        loop {
            let fault = match self.read_locked(addr, buf)? {
                Slow::Done(len) => return Ok(len),
                Slow::Missing(fault) => fault,
            };
            let held = fault.hold(buf.len());
            let _held = held.map_err(|kind| Error::at(kind, Op::Read, addr))?;
            if let Slow::Done(len) = self.read_locked(addr, buf)? {
                return Ok(len);
            }
        }
    }

    /// Reads what a page has that no entry names, for which `is_absent` is asked afterwards: zeros, or what the file has.
    /// None if that is to be tried again. The structure lock is held.
    pub(crate) fn read_absent(
        &self,
        area: &Area<S>,
        addr: u64,
        buf: &mut [u8],
        is_absent: impl Fn() -> bool,
    ) -> Result<Option<Slow<S>>, ErrorKind> {
        let Some(file) = &area.file else {
            buf.fill(0);
            return Ok(Some(Slow::Done(buf.len())));
        };
        match file
            .file()
            .try_read(file.pos_of(addr), buf)
            .map_err(of_file)?
        {
            Tried::Done if is_absent() => {
                self.note_file(file, addr);
                Ok(Some(Slow::Done(buf.len())))
            }
            Tried::Done => Ok(None),
            Tried::PastEnd => Err(ErrorKind::PastEnd),
            Tried::NotNow(_) => Ok(Some(Slow::Missing(Fault::new(file, addr)))),
        }
    }

    /// Copies the page of `addr`, of which `len` bytes are to be written, from its file to `page`. The structure lock is
    /// held, and the entry claimed.
    pub(crate) fn copy_from_file(
        &self,
        file: &Arc<FileArea<S>>,
        addr: u64,
        page: RacyBytes<'_>,
        len: usize,
    ) -> Result<Copied<S>, ErrorKind> {
        if Self::is_cut_off(file, addr) {
            return Err(ErrorKind::PastEnd);
        }
        if len == page.len() {
            return Ok(Copied::Done(()));
        }
        match file
            .file()
            .try_copy(file.page_of(addr), page)
            .map_err(of_file)?
        {
            Tried::Done => Ok(Copied::Done(())),
            Tried::PastEnd => Err(ErrorKind::PastEnd),
            Tried::NotNow(_) => Ok(Copied::Missing(Fault::new(file, addr))),
        }
    }

    /// Pins a page that is a file's, for whose entry `is_absent` is asked afterwards. The structure lock is held.
    pub(crate) fn pin_of_file(
        &self,
        file: &Arc<FileArea<S>>,
        addr: u64,
        len: usize,
        is_absent: impl Fn() -> bool,
    ) -> Result<Copied<S, FrameRef<'_, S>>, ErrorKind> {
        let page_bytes = file.file().page_bytes();
        let end = page_bytes - file.bytes_to_page_end(addr) + len;
        let page = file.page_of(addr);
        match file.file().try_pin(page, end).map_err(of_file)? {
            (Tried::Done, Some(reference)) if is_absent() => {
                // The file's frames are the space's, which live as long as it does.
                let frame = reference.into_raw();
                Ok(Copied::Done(view::pins_reference(&self.shared, frame)))
            }
            (Tried::Done, _) => Ok(Copied::Again),
            (Tried::PastEnd, _) => Err(ErrorKind::PastEnd),
            (Tried::NotNow(_), _) => Ok(Copied::Missing(Fault::new(file, addr))),
        }
    }

    /// The order of the pages at `addr`, if a file was noted there.
    pub(crate) fn order_of_file(&self, addr: u64) -> Option<u32> {
        self.with_file(addr, |file| Some(u32::from(file.order().get())))
    }

    /// Has bytes of a file changed, if one was noted for `addr` and that is possible at once. The numbers are those of the
    /// module's text.
    #[inline]
    pub(crate) fn edit_file_hit<R>(
        &self,
        addr: u64,
        len: usize,
        lsn: u64,
        change: &mut impl FnMut(RacyBytes<'_>) -> R,
    ) -> Result<Option<R>, ErrorKind> {
        let tried = self.with_file(addr, |file| {
            if !file.writes_file() || len > file.bytes_to_page_end(addr) {
                return None;
            }
            let edit = (file.pos_of(addr), len, lsn);
            let change = |bytes: RacyBytes<'_>| change(bytes);
            Some(file.file().try_edit(edit, change, &mut Spare::default()))
        });
        match tried {
            None => Ok(None),
            Some(tried) => match tried.map_err(of_file)? {
                (Tried::Done, result) => Ok(result),
                (Tried::PastEnd, _) => Err(ErrorKind::PastEnd),
                (Tried::NotNow(_), _) => Ok(None),
            },
        }
    }

    /// Has bytes of a file changed; none if the area at `addr` is another one now. No lock is held.
    pub(crate) fn edit_file<R>(
        &self,
        file: &Arc<FileArea<S>>,
        addr: u64,
        (len, lsn): (usize, u64),
        change: &mut impl FnMut(RacyBytes<'_>) -> R,
    ) -> Result<Option<R>, ErrorKind> {
        let pos = file.pos_of(addr);
        let mut spare = Spare::default();
        loop {
            let areas = read(&self.structure);
            let now = areas.area_of(addr).and_then(|area| area.file.as_ref());
            if !now.is_some_and(|now| Arc::ptr_eq(now, file)) {
                return Ok(None);
            }
            let change = |bytes: RacyBytes<'_>| change(bytes);
            let tried = file.file().try_edit((pos, len, lsn), change, &mut spare);
            let wait = match tried.map_err(of_file)? {
                (Tried::Done, result) => {
                    self.note_file(file, addr);
                    return Ok(result);
                }
                (Tried::PastEnd, _) => return Err(ErrorKind::PastEnd),
                (Tried::NotNow(wait), _) => wait,
            };
            drop(areas);
            claim::assert_none_held();
            file.file().wait(pos, &wait, &mut spare).map_err(of_file)?;
        }
    }
}
