//! Hooks on the bytes of pages: what a program does to each page on its way to the storage and back.
//!
//! A file with hooks is stored in whole pages ([`super::layout`]). What calls them, with which memory and on which thread: pages that go out in
//! `writeback::run`, pages that come in in `read::fill`.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::base::page::PageNr;

/// What a program does to the bytes of a file's pages on their way to the storage and back: checksums, encryption, compression within the
/// page.
///
/// A file is opened with hooks by [`OpenOptions::page_hooks`](crate::OpenOptions::page_hooks). It is stored in whole pages then, and only who opens it with
/// hooks that fit reads it well. Readers of the cache never see what is stored: [`before_write`](Self::before_write) gets a copy of each page,
/// and [`after_read`](Self::after_read) has turned a stored page back before anybody sees it.
///
/// # What has to hold
///
/// - `after_read` gives back the bytes that `before_write` was given. Room for a checksum or a tag is in the page: the program leaves some bytes of each page
///   alone, zeros for example, which `before_write` replaces and `after_read` restores.
/// - A page with a byte that is not zero is stored with a byte that is not zero. `before_write` is told so by an error of the file if it does otherwise.
/// - The same page may go out several times, in different versions, and be asked for again after a failure. So `before_write` must not
///   take a page that it has seen for one that is stored, and must not derive a nonce from the page's number and log sequence number:
///   two versions may have the same.
///
/// # Pages that nobody has written
///
/// A stored page of zeros is a *hole*: a page that nobody has written yet, between the pages that were written, or past the old end of a file that
/// has become longer. It reads as zeros, and is not given to `after_read`, but its number to [`hole`](Self::hole). So a page of which the storage has lost
/// everything, and now says zeros, is not told from one that was never written, unless `hole` refuses it.
///
/// # Where they are called, and what they may do
///
/// `before_write` is called by whoever writes the file back: a thread of the cache, or one of the program that asks for just that (see
/// [`OpenOptions::before_write`](crate::OpenOptions::before_write)); by one thread at a time for a file, with the writeback lock of the file held. `after_read` and `hole` are called by
/// the thread that has missed a page, if it reads that alone, and by threads of the cache that are there for that if pages are read together, ahead, prefetched or awaited; by any number of threads
/// at the same time, of which those of the cache are at most eight for a file. A hook that blocks keeps those who want the page, and the threads
/// that it was called by; no other file waits for it.
///
/// A page is claimed while `after_read` runs, and who waits for it sleeps. So a hook must not use any cache in a way that may wait: a call that would is refused with
/// [`Deadlock`](crate::ErrorKind::Deadlock). What a hook needs, such as keys, has to be in the program's own memory. It must not wait for a thread that uses the file.
///
/// A panic of a hook counts as an error of it.
pub trait PageHooks: Send + Sync + 'static {
    /// These pages, neighbours in ascending order, are about to be given to the storage in one request. Their bytes are copies, which the hook may change as
    /// it likes: nobody who uses the cache sees that.
    ///
    /// # Errors
    ///
    /// None of the pages is given to the storage then; each of them is tried again alone, and the page that is refused alone stays dirty. Who writes back is told of
    /// [`Refused`](crate::ErrorKind::Refused), with that page; the next write-back tries again.
    fn before_write(&self, pages: &mut [OutgoingPage<'_>]) -> io::Result<()>;

    /// Page number `page` was read, and `bytes` are what the storage has: all of the page. What the hook leaves is what readers get, as far as the
    /// file reaches; past its end they get zeros.
    ///
    /// # Errors
    ///
    /// Nobody sees anything of the page then. Who wanted it gets [`Corrupt`](crate::ErrorKind::Corrupt), with the page and this error. Nothing is remembered: who wants it
    /// next has it read again.
    fn after_read(&self, page: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Page number `page` was read, and it is a hole: the storage has zeros only. By default it reads as zeros.
    ///
    /// Of a page that the storage has nothing of at all, past its end, this is not asked.
    ///
    /// # Errors
    ///
    /// As of [`after_read`](Self::after_read): for a program that writes every page before it reads any, a hole is a page that was lost.
    fn hole(&self, page: u64) -> io::Result<()> {
        let _ = page;
        Ok(())
    }
}

/// The hooks of a file.
#[derive(Clone)]
pub(crate) struct Hooks(pub(crate) Arc<dyn PageHooks>);

impl Hooks {
    /// Whether these are the same value; two of one type may have different keys.
    pub(crate) fn are(&self, other: &Self) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.0), Arc::as_ptr(&other.0))
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").finish_non_exhaustive()
    }
}

/// A page on its way to the storage: a copy, which a hook may change ([`PageHooks::before_write`]).
pub struct OutgoingPage<'b> {
    page: PageNr,
    lsn: u64,
    len: usize,
    bytes: &'b mut [u8],
}

impl<'b> OutgoingPage<'b> {
    /// Of `bytes`, the first `len` are the file's.
    pub(crate) fn new(page: PageNr, lsn: u64, len: usize, bytes: &'b mut [u8]) -> Self {
        Self {
            page,
            lsn,
            len,
            bytes,
        }
    }

    /// The page's number.
    #[must_use]
    pub fn page(&self) -> u64 {
        self.page
    }

    /// Highest log sequence number of a write to the page ([`File::write_at_lsn`](crate::File::write_at_lsn)); 0 if it has none, and if the
    /// page is written to remove bytes after the end of the file.
    ///
    /// Different bytes may go out with the same number, 0 included: it is no nonce.
    #[must_use]
    pub fn lsn(&self) -> u64 {
        self.lsn
    }

    /// How many of its bytes are the file's: all of them, but for the last page of the file, whose other bytes are zeros.
    #[must_use]
    pub fn nr_used(&self) -> usize {
        self.len
    }

    /// All bytes of the page.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// All bytes of the page, to be changed. All of them are stored.
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
    /// Whether this thread is in a hook on bytes.
    static IS_IN_HOOK: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is in a hook on bytes, where it must not wait.
#[inline]
pub(crate) fn is_in_page_hook() -> bool {
    IS_IN_HOOK.get()
}

/// Calls a hook on bytes. A panic of it is an error.
pub(crate) fn call_page_hook(hook: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    /// Also when the hook unwinds. A hook is called in no other: the thread would have to wait in it.
    struct Leaving;
    impl Drop for Leaving {
        fn drop(&mut self) {
            IS_IN_HOOK.set(false);
        }
    }
    IS_IN_HOOK.set(true);
    let _leaving = Leaving;
    // The bytes that it was changing are dropped, or made anew.
    catch_unwind(AssertUnwindSafe(hook)).unwrap_or_else(|panic| {
        // It was shown by the panic hook. Its drop could panic again, so it is leaked.
        std::mem::forget(panic);
        Err(io::Error::other("the hook has panicked"))
    })
}

/// Whether all of `bytes` are zeros.
pub(crate) fn is_zeros(bytes: &[u8]) -> bool {
    // By blocks, which the compiler looks at as a whole.
    bytes
        .chunks(256)
        .all(|block| block.iter().fold(0, |any, byte| any | byte) == 0)
}

#[cfg(all(test, not(loom)))]
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
