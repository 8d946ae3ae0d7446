//! Atomic operations on aligned words of 64 bits.
//!
//! An operation claims the page's entry, as a write does, so it is atomic against writes, other operations, forks and
//! migrations alike; loads are optimistic reads.

use pagewell_frame::refcount::RefScheme;
use pagewell_sync::bytes::RacyBytes;

use crate::error::{Error, ErrorKind, Op};
use crate::mm::mm::Space;

/// How many bytes a word has.
const WORD: usize = size_of::<u64>();

impl<S: RefScheme> Space<S> {
    /// The word at `addr`, in the machine's byte order.
    ///
    /// Operations on words are ordered as acquire and release, and not sequentially consistent: who sees a value sees what
    /// was written before it was stored; two threads that each store one word and then load the other's may both
    /// see the old one.
    ///
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and [`Misaligned`](ErrorKind::Misaligned) unless `addr` is a multiple of 8.
    pub fn load(&self, addr: u64) -> Result<u64, Error> {
        check_aligned(addr)?;
        let mut word = [0; WORD];
        self.read(addr, &mut word)?;
        Ok(u64::from_ne_bytes(word))
    }

    /// Stores a word at `addr`, in the machine's byte order.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write), and [`Misaligned`](ErrorKind::Misaligned) unless `addr` is a multiple of 8.
    pub fn store(&self, addr: u64, value: u64) -> Result<(), Error> {
        self.update(addr, |_| value).map(|_| ())
    }

    /// Stores a word at `addr`, and returns the one that was there.
    ///
    /// # Errors
    ///
    /// As [`store`](Self::store).
    pub fn swap(&self, addr: u64, value: u64) -> Result<u64, Error> {
        self.update(addr, |_| value)
    }

    /// Adds to the word at `addr`, wrapping around at its end, and returns the sum's first part: what was there.
    ///
    /// # Errors
    ///
    /// As [`store`](Self::store).
    pub fn fetch_add(&self, addr: u64, value: u64) -> Result<u64, Error> {
        self.update(addr, |before| before.wrapping_add(value))
    }

    /// Stores `new` at `addr` if the word there is `current`; the inner result has the word that was there. The page counts
    /// as written in any case: in a shared area of a file it becomes dirty.
    ///
    /// # Errors
    ///
    /// As [`store`](Self::store). The inner error says that the word was another one.
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

    /// Replaces the word at `addr` by what `change` makes of it, and returns the one that was there.
    fn update(&self, addr: u64, change: impl Fn(u64) -> u64) -> Result<u64, Error> {
        check_aligned(addr)?;
        self.inner
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
