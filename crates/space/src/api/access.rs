//! Accesses. An atomic operation claims the page's entry as a write does, so it is atomic with
//! respect to writes, atomic operations, forks and migrations. Loads are optimistic reads.

use std::ops::Range;

use pagewell_frame::{PageView, Torn, ViewOutcome};
use pagewell_sync::bytes::RacyBytes;

use crate::access::view::Viewer;
use crate::error::{Error, ErrorKind, Op};
use crate::mm::handles::Space;

const WORD: usize = size_of::<u64>();

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
        match Viewer::of(&self.mm).look(addr, len, &mut look) {
            ViewOutcome::Done(answer) => Ok(answer),
            _ => Viewer::of(&self.mm).view(addr, len, &mut look),
        }
    }

    /// Loads the word at `addr`, in the machine's byte order.
    ///
    /// Operations on words have acquire and release ordering, not sequential consistency: of two
    /// threads that each store a word and then load the other's, both may load the old one. Fails
    /// as [`read`](Self::read) does, or with [`ErrorKind::Misaligned`] if 8 does not divide `addr`.
    pub fn load(&self, addr: u64) -> Result<u64, Error> {
        check_aligned(addr)?;
        let mut word = [0; WORD];
        self.read(addr, &mut word)?;
        Ok(u64::from_ne_bytes(word))
    }

    /// Stores a word at `addr`, in the machine's byte order. Fails as [`write`](Self::write) does,
    /// or with [`ErrorKind::Misaligned`] if 8 does not divide `addr`.
    pub fn store(&self, addr: u64, value: u64) -> Result<(), Error> {
        self.update(addr, |_| value).map(|_| ())
    }

    /// As [`store`](Self::store), and returns the previous word.
    pub fn swap(&self, addr: u64, value: u64) -> Result<u64, Error> {
        self.update(addr, |_| value)
    }

    /// As [`swap`](Self::swap), but adds `value` to the word, with wraparound.
    #[inline]
    pub fn fetch_add(&self, addr: u64, value: u64) -> Result<u64, Error> {
        self.update(addr, |before| before.wrapping_add(value))
    }

    /// Stores `new` at `addr` if the word is `current`. The inner result contains the previous
    /// word, and is an error if this was not `current`. In a shared area of a file, the page
    /// becomes dirty in both cases. Fails as [`store`](Self::store) does.
    pub fn compare_exchange(
        &self,
        addr: u64,
        current: u64,
        new: u64,
    ) -> Result<Result<u64, u64>, Error> {
        let before = self.update(addr, |before| if before == current { new } else { before })?;
        Ok(if before == current {
            Ok(before)
        } else {
            Err(before)
        })
    }

    fn update(&self, addr: u64, change: impl Fn(u64) -> u64) -> Result<u64, Error> {
        check_aligned(addr)?;
        self.mm
            .edit((Op::Atomic, 0), addr, WORD, |page: RacyBytes<'_>| {
                let mut word = [0; WORD];
                page.copy_to(0, &mut word);
                let before = u64::from_ne_bytes(word);
                page.copy_from(0, &change(before).to_ne_bytes());
                before
            })
    }
}

fn check_aligned(addr: u64) -> Result<(), Error> {
    if addr.is_multiple_of(WORD as u64) {
        Ok(())
    } else {
        Err(Error::at(ErrorKind::Misaligned, Op::Atomic, addr))
    }
}
