//! Reading: optimistically, and by reference.
//!
//! # The optimistic read
//!
//! Nothing shared is written, and no reference is taken.
//!
//! ```text
//! reader                                       a thread that takes the page out, and one that reuses its frame
//! 1 load the slot            (acquire)         a claim the slot              (`busy`)
//! 2 give up unless it is hot                   b freeze the frame, or drop its reference
//! 3 load the file's size; give up beyond it    c end the claim: new version  (release)
//! 4 copy the bytes                             d free the frame; a thread allocates it (locks)
//! 5 fence(Acquire)                             e fence(Release)              (`UniqueFrame::bytes`)
//! 6 load the slot again: unchanged?            f write other bytes
//! ```
//!
//! If step 4 copies any byte that step f wrote, the fences synchronise (5 with e), so step 6 sees the
//! word that step c stored, or a later one: `busy`, or another version. So a read that finds the slot
//! unchanged has copied none of them. The frame's memory stays mapped, so a copy that turns out stale is
//! harmless while it lasts. The array of slots stays mapped too, for as long as the mapping exists.
//!
//! The answer covers the whole copy: the bytes are those of the page at any moment between steps 1 and 6. A
//! read of several pages is validated page by page. So it is atomic for each page, not for all of them.
//!
//! The read gives up, and the referenced lookup decides, when: the page is not up to date, or a change of
//! its slot is under way; it is not yet marked as referenced; the read reaches past the page or the
//! file's size; the slot has changed. A short read is tried in line, any read within one page a call away, and each page once more by the loop over pages. Then the page is looked at again, up to [`TRIES`] times: one
//! that is there is marked, if it is not, and tried; one that is claimed is waited for, for a moment. So neither what is read for the first
//! time since it was filled, nor what somebody was just writing, needs a reference: that would load the frame's record and write to it, and
//! make the next writer move the page (`docs/adr/0007-*`). A page that is not there has nothing to try again.
//!
//! # The referenced read
//!
//! Every page is looked up with a reference ([`crate::read::lookup`]), copied, and released: two
//! read-modify-writes of the frame's count for each page. This is the baseline of the optimistic
//! read.
//!
//! Proved by `loom_read_vs_evict_and_reuse`, `loom_read_vs_fill`, `loom_read_vs_replacement`; by the
//! litmus tests `optimistic-read*`; by the mutants of `verify/mutants`.

use pagewell_frame::refcount::RefScheme;
use pagewell_sync::atomic::{Ordering, fence};
use pagewell_sync::thread::Backoff;

use crate::base::error::{Error, ErrorKind};
use crate::base::page::PageNr;
use crate::base::slot::State;
use crate::mapping::record::Mapping;
use crate::read::lookup::{Found, Lookup};
use crate::read::raw;

/// The longest read that is tried inline: [`pagewell_sync::bytes`] copies so much without a call. A call would
/// make the function around it save its registers.
const SHORT_BYTES: usize = 64;

/// What a reader of many pages does beside reading.
pub(crate) trait Guide {
    /// How many pages to fill from the missing `page` on, as the read itself still needs `wanted`.
    fn on_miss(&self, page: PageNr, wanted: usize) -> usize;

    /// `page` is read for the first time since it was filled, or waited for while somebody else fills it.
    fn on_touch(&self, _page: PageNr) {}

    /// Whether such a page is noted as used.
    fn marks(&self) -> bool {
        true
    }
}

impl<F: Fn(PageNr, usize) -> usize> Guide for F {
    fn on_miss(&self, page: PageNr, wanted: usize) -> usize {
        self(page, wanted)
    }
}

/// How often a page that is there is tried again before it is read by reference.
const TRIES: u32 = if cfg!(loom) { 1 } else { 4 };

/// The outcome of an optimistic read within one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum FastRead {
    /// All of the buffer was read.
    Done,
    /// The referenced lookup has to decide. The buffer may have been written to.
    Fallback,
}

/// The way that a read takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadPath {
    /// Optimistic, and by reference where that gives up.
    Optimistic,
    /// By reference.
    // Asked for by the baseline and by models; a read that falls back takes references page by page.
    #[cfg_attr(not(feature = "baselines"), allow(dead_code))]
    Referenced,
}

/// Reads bytes of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'m, S: RefScheme>(pub(crate) &'m Mapping<S>);

impl<S: RefScheme> Reader<'_, S> {
    /// Fills `buf` with the bytes from `pos` on, if it is a short read that hits. Otherwise
    /// [`read_pages`](Self::read_pages) has to decide, and `buf` may have been written to.
    ///
    /// It calls nothing and needs few registers, so it adds little to the function into which it is
    /// inlined.
    #[inline(always)]
    pub(crate) fn read_short(self, buf: &mut [u8], pos: u64) -> FastRead {
        if buf.len() > SHORT_BYTES {
            return FastRead::Fallback;
        }
        self.read_page_optimistic(pos, buf)
    }

    /// The page with byte `pos` of the file, and the byte's position in it.
    #[inline]
    fn split(self, pos: u64) -> (PageNr, usize) {
        let off = pos as usize & (self.0.page_size() - 1);
        (pos >> self.0.page_shift(), off)
    }

    /// Fills `buf` from within one page, or gives up; then `buf` may hold bytes of another page, which [`read_pages`](Self::read_pages) overwrites or
    /// [wipes](Self::wipe). The numbers are those of the module's text.
    ///
    /// Every instruction counts here: the number of random reads that overlap depends on how many fit
    /// into the processor's window (`docs/adr/0004-hit-path.md`).
    #[inline(always)]
    pub(crate) fn read_page_optimistic(self, pos: u64, buf: &mut [u8]) -> FastRead {
        let (page, off) = self.split(pos);
        if off + buf.len() > self.0.page_size() {
            return FastRead::Fallback;
        }
        // Loaded before the first atomic access; otherwise the compiler must load them again after it.
        let view = self.0.index().view();
        // 1.
        let Some(seen) = self.0.index().look(page) else {
            return FastRead::Fallback;
        };
        // 2.
        if !seen.slot.is_hot() {
            return FastRead::Fallback;
        }
        // 3. After the slot. So a page that is there is within the size, or the size is newer. (The sum
        // cannot overflow: an index has no slots beyond `MAX_FILE_BYTES`.)
        if pos + buf.len() as u64 > self.0.size() {
            return FastRead::Fallback;
        }
        // 4.
        let frame = seen.slot.frame();
        raw::copy_page(view, frame, off, buf);
        // 5.
        // ORDERING: Acquire fence; pairs with the release fence of the thread that overwrites the frame's bytes
        // (`UniqueFrame::bytes`), through the bytes. It also keeps the loads below from being done
        // before the copy. Without it `optimistic-read-broken-no-reader-fence` is "Sometimes".
        fence(Ordering::Acquire);
        // 6.
        if seen.is_unchanged() {
            FastRead::Done
        } else {
            FastRead::Fallback
        }
    }

    /// Reads any number of pages, the way `path` says.
    pub(crate) fn read_pages(
        self,
        buf: &mut [u8],
        pos: u64,
        path: ReadPath,
        guide: impl Guide,
    ) -> Result<usize, Error> {
        let mut done = 0;
        while done < buf.len() {
            let Some(now) = pos.checked_add(done as u64) else {
                break;
            };
            let rest_of_file = self.0.size().saturating_sub(now);
            let (page, off) = self.split(now);
            let wanted =
                (buf.len() - done).min(usize::try_from(rest_of_file).unwrap_or(usize::MAX));
            if wanted == 0 {
                break;
            }
            let chunk = &mut buf[done..][..wanted.min(self.0.page_size() - off)];
            if path == ReadPath::Optimistic
                && self.read_page_optimistic(now, chunk) == FastRead::Done
            {
                done += chunk.len();
                continue;
            }
            if path == ReadPath::Optimistic
                && guide.marks()
                && self.read_page_again(page, now, chunk, &guide) == FastRead::Done
            {
                done += chunk.len();
                continue;
            }
            if !guide.marks() && matches!(self.read_page_unmarked(page, off, now, chunk), Ok(true))
            {
                guide.on_touch(page);
                done += chunk.len();
                continue;
            }
            if Lookup(self.0).is_under_way(page) {
                // Read ahead, as a rule. While this thread waits, the engine goes on with what comes after.
                guide.on_touch(page);
            }
            let pages_left = (off + wanted).div_ceil(self.0.page_size());
            let ahead = || guide.on_miss(page, pages_left);
            match self.read_page_referenced(page, off, now, chunk, ahead) {
                Ok(n) => {
                    done += n;
                    if n < chunk.len() {
                        // The file has just been found to end here.
                        break;
                    }
                }
                Err(error) => {
                    // Bytes read before the failure count; the next read reports it. If the file
                    // has just been found to end before this page, that is no failure.
                    if done == 0 && error.kind() != ErrorKind::OutOfRange {
                        self.wipe(buf);
                        return Err(error);
                    }
                    break;
                }
            }
        }
        if done < buf.len() {
            self.wipe(&mut buf[done..]);
        }
        Ok(done)
    }

    /// Makes zero what a copy within one page, in `read_pages` or before it, may have left there of foreign bytes when its check failed: what was to be the
    /// page after the last one that was read.
    pub(crate) fn wipe(self, buf: &mut [u8]) {
        let end = buf.len().min(self.0.page_size());
        buf[..end].fill(0);
    }

    /// Fills `buf` from within one page, if it is there, with a reference to its frame, and does not note that it was used. Whether it did.
    #[cold]
    fn read_page_unmarked(
        self,
        page: PageNr,
        off: usize,
        pos: u64,
        buf: &mut [u8],
    ) -> Result<bool, Error> {
        let Some(Found { reference, end }) = Lookup(self.0).peek(page)? else {
            return Ok(false);
        };
        if end < pos + buf.len() as u64 {
            return Ok(false);
        }
        reference.bytes().copy_to(off, buf);
        Ok(true)
    }

    /// Fills `buf` from within `page`, which was tried already, as long as it is there and others are only changing it.
    fn read_page_again(
        self,
        page: PageNr,
        pos: u64,
        buf: &mut [u8],
        guide: &impl Guide,
    ) -> FastRead {
        let mut backoff = Backoff::new();
        for round in 0..TRIES {
            if round != 0 {
                backoff.wait();
            }
            let Some(seen) = self.0.index().look(page) else {
                return FastRead::Fallback;
            };
            match seen.slot.state() {
                State::Present(_) => {
                    if !seen.slot.is_hot() {
                        Lookup(self.0).mark_referenced(page, seen);
                        guide.on_touch(page);
                    }
                    if self.read_page_optimistic(pos, buf) == FastRead::Done {
                        return FastRead::Done;
                    }
                }
                State::Busy => {}
                State::Empty => return FastRead::Fallback,
            }
        }
        FastRead::Fallback
    }

    /// Reads within one page with a reference to its frame.
    pub(crate) fn read_page_referenced(
        self,
        page: PageNr,
        off: usize,
        pos: u64,
        buf: &mut [u8],
        ahead: impl Fn() -> usize,
    ) -> Result<usize, Error> {
        let Found { reference, end } = match Lookup(self.0).get(page, &ahead) {
            Ok(found) => found,
            Err(error) => Lookup(self.0).get_after(error, page, &ahead)?,
        };
        let n = end.saturating_sub(pos).min(buf.len() as u64) as usize;
        let (now, past_end) = buf.split_at_mut(n);
        reference.bytes().copy_to(off, now);
        past_end.fill(0);
        Ok(n)
    }
}
