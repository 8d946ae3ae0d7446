//! Operations on words. Each claims the page's entry as a write does, so it is atomic with respect
//! to writes, other operations, forks and migrations. Loads are optimistic reads.

use pagewell_sync::bytes::RacyBytes;

use crate::error::{Error, ErrorKind, Op};
use crate::mm::space::Space;

const WORD: usize = size_of::<u64>();

impl Space {
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
