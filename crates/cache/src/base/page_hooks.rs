//! Page codecs: code of the program that transforms pages on the way to the backend and back.
//!
//! A file with a codec is stored in whole pages ([`super::layout`]). `writeback::run` encodes
//! pages, and `read::fill` decodes them.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

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
/// - `after_read` restores the bytes that `before_write` received. A checksum or a tag is stored in
///   the page itself: the program leaves some bytes of each page unused, for example zero;
///   `before_write` replaces them, and `after_read` restores them.
/// - A page with a nonzero byte is stored with a nonzero byte. If `before_write` violates this, the
///   file reports an error.
/// - The same page may be written several times with different bytes, and be passed to
///   `before_write` again after a failure. So `before_write` must not assume that a page that it
///   has encoded is stored. It must not derive a nonce from the page's number and log sequence
///   number, which two versions of the page may have in common.
///
/// # Pages that were never written
///
/// A stored page of zeros is a *hole*: a page that was never written, between written pages or past
/// the old end of a file that has grown. It reads as zeros and is not passed to `after_read`; its
/// number is passed to [`hole`](Self::hole). A page that the backend has lost, and which now reads
/// as zeros, is therefore indistinguishable from one that was never written, unless `hole` refuses
/// it.
///
/// # Threads and restrictions
///
/// `before_write` is called by the thread that writes the file back: a thread of the cache, or a
/// thread of the program that requests writeback (see
/// [`OpenOptions::before_write`](crate::OpenOptions::before_write)). It is called by one thread at
/// a time for a file, with the file's writeback lock held.
///
/// `after_read` and `hole` are called by the thread that missed a page, if it reads only that page.
/// Decoder threads of the cache call them for pages that are read together, read ahead, prefetched
/// or awaited. Any number of threads may call them concurrently; at most eight per file are threads
/// of the cache. When bytes past the end of the file are removed from the backend, the thread that
/// extends or opens the file may call `after_read` and `before_write` too. A codec that blocks
/// delays the threads that need the page and the threads that call the codec. Other files wait for
/// it only if blocked codecs occupy all decoder threads of the cache.
///
/// A page is claimed while `after_read` runs, and threads that wait for it sleep. So a codec must
/// not call any cache in a way that may wait: such a call fails with
/// [`Deadlock`](crate::ErrorKind::Deadlock). Everything that a codec needs, such as keys, must be
/// in the program's own memory. A codec must not wait for a thread that uses the file.
///
/// A panic of a codec counts as an error.
pub trait PageHooks: Send + Sync + 'static {
    /// Encodes `pages`, which are consecutive, in ascending order, and about to be written to the
    /// backend in one request. Their bytes are copies. The codec may change the copies freely;
    /// users of the cache do not see the changes.
    ///
    /// # Errors
    ///
    /// If the codec returns an error, none of the pages is written. Each page is then encoded and
    /// written again on its own. A page that is refused again stays dirty, and the writeback fails
    /// with [`Refused`](crate::ErrorKind::Refused), which names that page. The next writeback tries
    /// again.
    fn before_write(&self, pages: &mut [OutgoingPage<'_>]) -> io::Result<()>;

    /// Decodes page number `page`. `bytes` is the whole page as stored. Readers get the bytes that
    /// the codec leaves, up to the end of the file, and zeros past it.
    ///
    /// # Errors
    ///
    /// If the codec returns an error, no reader sees any byte of the page. The reader that needed
    /// the page gets [`Corrupt`](crate::ErrorKind::Corrupt), with the page and this error. The
    /// error is not stored: the next reader causes another read.
    fn after_read(&self, page: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Called when page number `page` was read and is a hole: its stored bytes are zeros. By
    /// default it reads as zeros.
    ///
    /// Not called for a page that lies past the end of the stored file.
    ///
    /// # Errors
    ///
    /// As for [`after_read`](Self::after_read): to a program that writes every page before it reads
    /// any, a hole is a lost page.
    fn hole(&self, page: u64) -> io::Result<()> {
        let _ = page;
        Ok(())
    }
}

/// Page codec of a file.
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

/// Page that is about to be written to the backend: a copy, which a codec may change
/// ([`PageHooks::before_write`]).
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

    /// Returns the highest log sequence number of a write to the page
    /// ([`File::write_at_lsn`](crate::File::write_at_lsn)); 0 if there is none, or if the page is
    /// written to remove bytes past the end of the file.
    ///
    /// Different bytes may be written with the same number, 0 included, so it is not a nonce.
    #[must_use]
    pub fn lsn(&self) -> u64 {
        self.lsn
    }

    /// Returns the number of bytes that are the file's. It is the page size except for the last
    /// page of the file, which is padded with zeros.
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

/// Whether the calling thread is in a page codec, where it must not wait.
#[inline]
pub(crate) fn is_in_page_hook() -> bool {
    IS_IN_HOOK.get()
}

/// Calls a page codec. Converts a panic into an error.
pub(crate) fn call_page_hook(hook: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    /// Clears the flag, also on unwind. Codec calls do not nest: a codec that caused another codec
    /// call would have to wait, which it must not.
    struct Leaving;
    impl Drop for Leaving {
        fn drop(&mut self) {
            IS_IN_HOOK.set(false);
        }
    }
    IS_IN_HOOK.set(true);
    let _leaving = Leaving;
    // Unwind safe: the bytes that the codec was changing are dropped or overwritten.
    catch_unwind(AssertUnwindSafe(hook)).unwrap_or_else(|panic| {
        // The panic hook has reported the panic. Dropping the payload could panic again, so it is
        // leaked.
        std::mem::forget(panic);
        Err(io::Error::other("the hook has panicked"))
    })
}

pub(crate) fn is_zeros(bytes: &[u8]) -> bool {
    // Checks block by block, which the compiler vectorizes.
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
