//! Views: a closure runs on bytes of a page in place, and succeeds only if these did not change.
//!
//! Protocol. A view is an optimistic read ([`crate::access::optimistic`]) with the closure in place
//! of the copy, step 5. Its accesses may also execute steps 6 and 7 from time to time. There is no
//! step 1: step 7 compares the entry and the directory's entry, not the sequence counter.
//!
//! After a few attempts with inconsistent bytes or a claimed entry, or if the entry is not present
//! and readable, the closure runs on pinned bytes ([`crate::access::pin`]). A page that was never
//! written appears as zeros, and is not created. Pages of files are always pinned: otherwise the
//! thread would be a writer at work ([`crate::areas::noted`]) while the closure runs. Forks would
//! wait for the closure, and a closure that unmaps the area would wait for itself. The closure runs
//! with no lock held, and may use the space in any way.
//!
//! Pages of spaces have no tokens: the state of a page is in two words with repeating versions of
//! 27 bits, so tokens would need a generation, for which there is no place
//! (`docs/adr/0026-page-tokens.md`).
//!
//! Verified by `loom_view_vs_write`, `loom_view_vs_fork_and_write`, `loom_view_vs_migration`.

use std::ops::Range;

use pagewell_frame::{FRAME_BYTES, PageView, Torn, ViewOutcome, attempt_view};
use pagewell_sync::atomic::AtomicU64;
use pagewell_sync::bytes::RacyBytes;
use pagewell_sync::scaled;
use pagewell_sync::thread::Backoff;

use crate::error::{Error, ErrorKind, Op};
use crate::mm::space::Space;
use crate::supply::view;
use crate::words::claim::look as look_at_entry;
use crate::words::geometry::{entry_of, offset_in_page, page_bytes};
use crate::words::pmd::Directory;

/// Maximum number of retries without a reference.
const TRIES: u32 = scaled(4, 1);

impl Space {
    /// Runs `look` on the bytes of `range` in place, which must be in one page, and returns its
    /// result if the bytes did not change. Otherwise `look` is called again, after a few attempts
    /// on the pinned page. [`File::view`](pagewell_cache::File::view) documents the rules for
    /// closures. `look` runs with no lock held: no fork, migration or change of areas waits for it.
    ///
    /// Bytes that were never written are zeros, and no page is created for them. Where a file is
    /// mapped, the page is pinned while `look` runs, which
    /// [`File::view`](pagewell_cache::File::view) avoids.
    ///
    /// # Errors
    ///
    /// [`ErrorKind`]: `InvalidRange` if the range is empty or exceeds the addresses of the space;
    /// `Misaligned` if it is in several pages; `Malformed` if `look` returned `Torn` although the
    /// bytes did not change, or made too many accesses; `Unmapped`, `Protected`, `TooManyPins`.
    /// Where a file is mapped, `PastEnd` past its end, `OutOfFrames`, and `File`.
    ///
    /// # Example
    ///
    /// ```
    /// use pagewell_frame::{FramePool, PoolConfig};
    /// use pagewell_space::{Policy, Spaces};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let spaces: Spaces = Spaces::new(FramePool::new(&PoolConfig::new(1024))?);
    /// let space = spaces.space()?;
    /// let area = space.map(1 << 20, Policy::Local)?;
    /// space.write(area.start + 64, &[7, 0, 0, 0, 9])?;
    ///
    /// let sum = space.view(area.start + 64..area.start + 128, |v| {
    ///     Ok(u64::from(v.u32_le(0)?) + u64::from(v.u8(4)?))
    /// })?;
    /// assert_eq!(sum, 16);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn view<R, F>(&self, range: Range<u64>, mut look: F) -> Result<R, Error>
    where
        F: FnMut(&PageView<'_>) -> Result<R, Torn>,
    {
        let addr = range.start;
        let len = range.end.checked_sub(addr).filter(|len| *len != 0);
        let len = len.and_then(|len| usize::try_from(len).ok());
        let len = len.ok_or(Error::at(ErrorKind::InvalidRange, Op::View, addr))?;
        match self.look(addr, len, &mut look) {
            ViewOutcome::Done(answer) => Ok(answer),
            _ => self.view_slowly(addr, len, &mut look),
        }
    }

    /// Retries, then views the pinned page.
    #[inline(never)]
    fn view_slowly<R, F>(&self, addr: u64, len: usize, look: &mut F) -> Result<R, Error>
    where
        F: FnMut(&PageView<'_>) -> Result<R, Torn>,
    {
        let mut backoff = Backoff::new();
        for _ in 0..TRIES {
            match self.look(addr, len, look) {
                ViewOutcome::Done(answer) => return Ok(answer),
                ViewOutcome::Again => backoff.wait(),
                ViewOutcome::Fallback | ViewOutcome::TooLong(_) => break,
            }
        }
        let pinned = self.pin_frame_if_any(addr, len);
        let words = [None, None];
        let zeros: Vec<AtomicU64>;
        let looked = match pinned.map_err(|error| error.with_op(Op::View))? {
            Some((reference, off)) => {
                let bytes = reference.bytes();
                attempt_view(bytes.slice(off, len), words, bytes.len(), &mut |v| look(&v))
            }
            None => {
                let nr_words = len.div_ceil(size_of::<AtomicU64>());
                zeros = (0..nr_words).map(|_| AtomicU64::new(0)).collect();
                let bytes = RacyBytes::from_words(&zeros).source();
                let size = len.max(FRAME_BYTES);
                attempt_view(bytes.slice(0, len), words, size, &mut |v| look(&v))
            }
        };
        match looked {
            ViewOutcome::Done(answer) => Ok(answer),
            _ => Err(Error::at(ErrorKind::Malformed, Op::View, addr)),
        }
    }

    /// Runs `look` once, without a reference, on the `len` bytes at `addr`. `Again` and `Fallback`
    /// mean that there is no result: the caller retries, or pins the page.
    #[inline(always)]
    pub(crate) fn look<R, F>(&self, addr: u64, len: usize, look: &mut F) -> ViewOutcome<R>
    where
        F: FnMut(&PageView<'_>) -> Result<R, Torn>,
    {
        let pool = self.mm.tables.view;
        let Some(pmd_word) = self.mm.tables.pmd_word(addr) else {
            return ViewOutcome::Fallback;
        };
        // 2.
        let pmd = Directory::look(pmd_word);
        if !pmd.is_present() {
            return ViewOutcome::Fallback;
        }
        let order = pmd.order();
        let off = offset_in_page(addr, order);
        if len as u64 > page_bytes(order) - off as u64 {
            return ViewOutcome::Fallback;
        }
        // 3.
        let word = view::entry(&pool, pmd.frame(), entry_of(addr, order));
        let entry = look_at_entry(word);
        // 4.
        if !entry.is_hot() {
            return if entry.is_busy() {
                ViewOutcome::Again
            } else {
                ViewOutcome::Fallback
            };
        }
        // 5 to 7.
        let Some(bytes) = view::racy_page(&pool, entry.frame(), order, off, len) else {
            return ViewOutcome::Again;
        };
        let words = [Some((word, entry.bits())), Some((pmd_word, pmd.bits()))];
        attempt_view(bytes, words, page_bytes(order) as usize, &mut |v| look(&v))
    }
}
