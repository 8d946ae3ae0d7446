//! Page codecs. A file with a codec is stored in whole pages ([`super::layout`]). `writeback::run`
//! encodes pages, `read::fill` decodes them, and `writeback::tail` does both.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pagewell_sync::ledger::{self, Resource};

use crate::base::page::PageNr;

/// Page codec: transforms the bytes of a file's pages on the way to the backend and back, for
/// checksums, encryption, or compression within the page.
///
/// [`OpenOptions::page_hooks`](crate::OpenOptions::page_hooks) opens a file with a codec. The file
/// is then stored in whole pages and can be read only with a matching codec. Readers of the cache
/// never see the stored form: [`before_write`](Self::before_write) gets a copy of each page, and
/// [`after_read`](Self::after_read) decodes a stored page before any reader sees it.
///
/// # Requirements
///
/// - `after_read` restores the bytes that `before_write` received. A checksum or a tag replaces
///   bytes that the program leaves unused, for example zero, and that `after_read` restores.
/// - A page with a nonzero byte is stored with a nonzero byte; otherwise the file reports an error.
/// - A page may be written several times with different bytes, and be passed to `before_write`
///   again after a failure. So `before_write` must neither assume that a page that it has encoded
///   is stored, nor derive a nonce from the page's number and log sequence number.
///
/// # Pages that were never written
///
/// A stored page of zeros is a *hole*: a page that was never written, between written pages or past
/// the old end of a grown file. It reads as zeros, and is passed not to `after_read` but to
/// [`hole`](Self::hole), which can refuse it: it may also be a page that the backend has lost.
///
/// # Threads and restrictions
///
/// `before_write` is called by the thread that writes the file back: a thread of the cache, or one
/// of the program ([`OpenOptions::before_write`](crate::OpenOptions::before_write)). For each file
/// one call runs at a time, with the file's writeback lock held.
///
/// `after_read` and `hole` are called by the thread that missed a page, for the pages that it reads
/// itself, and otherwise by decoder threads of the cache, at most eight per file. Any number of
/// threads may call them concurrently. A thread that opens or extends the file may call
/// `after_read` and `before_write` to remove stored bytes past its end. A codec that blocks delays
/// the threads that wait for its result, and other files if it occupies all decoder threads.
///
/// The page is claimed while `after_read` runs, and threads that need it sleep. Therefore, within a
/// codec, each call into a cache that may wait fails with [`Deadlock`](crate::ErrorKind::Deadlock).
/// Everything that a codec needs, such as keys, must be in the program's own memory. A codec must
/// not wait for a thread that uses the file. A panic of a codec counts as an error.
pub trait PageHooks: Send + Sync + 'static {
    /// Encodes `pages`: copies of consecutive pages, in ascending order, for one write request.
    ///
    /// # Errors
    ///
    /// After an error, none of the pages is written. If there are several, each is then encoded and
    /// written on its own. A page that is refused alone stays dirty, and the writeback fails with
    /// [`Refused`](crate::ErrorKind::Refused), which names it. The next writeback tries again.
    fn before_write(&self, pages: &mut [OutgoingPage<'_>]) -> io::Result<()>;

    /// Decodes page number `page`. `bytes` is the whole page as stored. Readers get the bytes that
    /// the codec leaves, up to the end of the file, and zeros past it.
    ///
    /// # Errors
    ///
    /// After an error, no reader sees any byte of the page. The reader that needed it gets
    /// [`Corrupt`](crate::ErrorKind::Corrupt) with page and error; the next reader reads it again.
    fn after_read(&self, page: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Called when page number `page` was read and is a hole, which by default reads as zeros. Not
    /// called for a page past the end of the stored file.
    ///
    /// # Errors
    ///
    /// An error refuses the page, as an error of [`after_read`](Self::after_read) does.
    fn hole(&self, page: u64) -> io::Result<()> {
        let _ = page;
        Ok(())
    }
}

#[derive(Clone)]
pub(crate) struct Hooks(pub(crate) Arc<dyn PageHooks>);

impl Hooks {
    /// Whether both are the same object. Two objects of one type may have different keys.
    pub(crate) fn are(&self, other: &Self) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.0), Arc::as_ptr(&other.0))
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").finish_non_exhaustive()
    }
}

/// Copy of a page that is about to be written to the backend ([`PageHooks::before_write`]).
pub struct OutgoingPage<'b> {
    page: PageNr,
    lsn: u64,
    len: usize,
    bytes: &'b mut [u8],
}

impl<'b> OutgoingPage<'b> {
    /// Creates an outgoing page. The first `len` bytes of `bytes` lie within the file.
    pub(crate) fn new(page: PageNr, lsn: u64, len: usize, bytes: &'b mut [u8]) -> Self {
        Self {
            page,
            lsn,
            len,
            bytes,
        }
    }

    /// Returns the page number.
    #[must_use]
    pub fn page(&self) -> u64 {
        self.page
    }

    /// Returns the highest log sequence number of the page's writes
    /// ([`File::write_at_lsn`](crate::File::write_at_lsn)); 0 if no write had one, or if this write
    /// removes bytes past the end of the file. It is no nonce: different bytes may share it.
    #[must_use]
    pub fn lsn(&self) -> u64 {
        self.lsn
    }

    /// Returns the number of bytes of the page within the file. Only the last page of a file has
    /// fewer than the page size, and is padded with zeros.
    #[must_use]
    pub fn nr_used(&self) -> usize {
        self.len
    }

    /// Returns all bytes of the page.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// Returns all bytes of the page for modification. All of them are stored.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes
    }
}

impl fmt::Debug for OutgoingPage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutgoingPage")
            .field("page", &self.page)
            .field("lsn", &self.lsn)
            .field("nr_used", &self.len)
            .finish_non_exhaustive()
    }
}

thread_local! {
    static IS_IN_HOOK: Cell<bool> = const { Cell::new(false) };
}

#[inline]
pub(crate) fn is_in_page_hook() -> bool {
    IS_IN_HOOK.get()
}

/// Calls a page codec. Converts a panic into an error.
pub(crate) fn call_page_hook(hook: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    /// Clears the flag, also on unwind. Codec calls do not nest ([`crate::base::home`]).
    struct Leaving;
    impl Drop for Leaving {
        fn drop(&mut self) {
            IS_IN_HOOK.set(false);
        }
    }
    // Listed as an exception in `docs/LOCKING.md`: readers of a page wait for its codec.
    let _in_program = ledger::enter("a page codec", &Resource::ALL);
    IS_IN_HOOK.set(true);
    let _leaving = Leaving;
    // Unwind safe: the bytes that the codec was changing are dropped or overwritten.
    catch_unwind(AssertUnwindSafe(hook)).unwrap_or_else(|panic| {
        // Leaked, since the drop of the payload could panic again.
        std::mem::forget(panic);
        Err(io::Error::other("the hook has panicked"))
    })
}

pub(crate) fn is_zeros(bytes: &[u8]) -> bool {
    // Block by block, so that the compiler vectorizes the check.
    bytes
        .chunks(256)
        .all(|block| block.iter().fold(0, |any, byte| any | byte) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_and_the_hook_is_left() {
        assert!(!is_in_page_hook());
        let called = call_page_hook(|| {
            assert!(is_in_page_hook());
            panic!("as it is to");
        });
        assert_eq!(called.unwrap_err().to_string(), "the hook has panicked");
        assert!(!is_in_page_hook());
        let failed = call_page_hook(|| Err(io::Error::other("no")));
        assert_eq!(failed.unwrap_err().to_string(), "no");
        assert!(!is_in_page_hook());
    }

    #[test]
    fn one_bit_anywhere_is_no_zeros() {
        let mut bytes = vec![0; 1000];
        assert!(is_zeros(&bytes) && is_zeros(&[]));
        for at in 0..bytes.len() {
            bytes[at] = 1 << (at % 8);
            assert!(!is_zeros(&bytes), "{at}");
            bytes[at] = 0;
        }
    }
}
