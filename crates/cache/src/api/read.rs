//! Reads, views, tokens and pins of a file.

use pagewell_frame::Torn;

use crate::api::file::File;
use crate::base::error::{Error, ErrorKind, Op};
use crate::index::token::{Token, TokenState};
use crate::read::pinner::{OwnedPageGuard, PageGuard};
use crate::read::reader::{FastRead, Guide as _, ReadPath, Reader};
use crate::read::viewer::{View, Viewer};

/// Type argument of [`File::read_at_any`] for calls in this crate.
pub(super) enum ThisCrate {}

impl File {
    /// Reads from byte `offset` on into `buf`. Returns the number of bytes read: the length of
    /// `buf`, or less if the file ends earlier (0 at or past the end). The rest of `buf` may have
    /// been set to zero.
    ///
    /// A read of a cached page acquires no lock. Once the page's accessed bit is set (usually by
    /// its first read), a read writes no shared memory, unless the page keeps changing. A missing
    /// page is read from the file once, however many threads need it.
    ///
    /// # Errors
    ///
    /// [`Io`](crate::ErrorKind::Io) if the backend fails,
    /// [`Truncated`](crate::ErrorKind::Truncated) if the file was truncated outside the cache,
    /// [`OutOfFrames`](crate::ErrorKind::OutOfFrames) if no frame can be freed. `buf` then has
    /// zeros for the failed page. If pages before it were read, the call returns their bytes and no
    /// error. An error is not kept: a later call reads the page anew. If the failed read was made
    /// for another caller, the error is a copy of that caller's.
    #[inline]
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        match Reader(&self.mapping).read_short(buf, offset) {
            FastRead::Done => Ok(buf.len()),
            FastRead::Fallback => self.read_at_any::<()>(buf, offset),
        }
    }

    /// Reads as [`read_at`](Self::read_at) does, if the read is a hit of at most 64 bytes within
    /// one page. On `false`, `buf` may have any bytes, and the caller calls `read_at`. Acquires no
    /// lock, waits for nothing, and calls no code of the program or backend.
    #[inline(always)]
    #[must_use]
    pub fn try_read_at(&self, buf: &mut [u8], offset: u64) -> bool {
        matches!(
            Reader(&self.mapping).read_short(buf, offset),
            FastRead::Done
        )
    }

    /// Reads from byte `offset` on until `buf` is full.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`](crate::ErrorKind::OutOfRange) (as an [`io::Error`](std::io::Error)
    /// [`UnexpectedEof`](std::io::ErrorKind::UnexpectedEof)) if the file ends before `buf` is full,
    /// and those of [`read_at`](Self::read_at). After an error, `buf` has unspecified bytes.
    #[inline]
    pub fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), Error> {
        match Reader(&self.mapping).read_short(buf, offset) {
            FastRead::Done => Ok(()),
            FastRead::Fallback => self.read_all_of(buf, offset),
        }
    }

    #[inline(never)]
    fn read_all_of(&self, buf: &mut [u8], offset: u64) -> Result<(), Error> {
        let mut nr_read = 0;
        while nr_read < buf.len() {
            // Past the largest offset there are no bytes.
            let pos = offset.saturating_add(nr_read as u64);
            match self.read_at_any::<ThisCrate>(&mut buf[nr_read..], pos)? {
                0 => {
                    let nr_missing = buf.len() - nr_read;
                    let detail = format!("{nr_missing} of {} bytes are missing", buf.len());
                    let error = self.mapping.error(ErrorKind::OutOfRange, Op::Read);
                    return Err(error.with_detail(detail));
                }
                nr => nr_read += nr,
            }
        }
        Ok(())
    }

    /// Reads as [`read_at`](Self::read_at) does, after an attempt at a short read. A longer hit
    /// within one page takes few instructions and little stack, so that random reads overlap
    /// (`docs/adr/0004-hit-path.md`).
    ///
    /// The unused parameter makes it a function of the crate that calls it: the address of another
    /// crate's function would occupy a register during a loop of reads. Calls in this crate pass
    /// [`ThisCrate`], since a caller uses an instance of this crate if there is one.
    #[allow(clippy::extra_unused_type_parameters)] // It selects the crate.
    #[inline(never)]
    pub(super) fn read_at_any<Caller>(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        match Reader(&self.mapping).read_long(buf, offset) {
            FastRead::Done => Ok(buf.len()),
            FastRead::Fallback => self.read_at_slowly(buf, offset),
        }
    }

    #[inline(never)]
    fn read_at_slowly(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        let reader = Reader(&self.mapping);
        if let Err(error) = self.mapping.check_home(Op::Read) {
            reader.wipe(buf);
            return Err(error);
        }
        reader.read_pages(buf, offset, ReadPath::Optimistic, self.guide())
    }

    /// Reads with a reference to each page: a baseline for optimistic reads.
    ///
    /// # Errors
    ///
    /// See [`read_at`](Self::read_at).
    #[cfg(feature = "baselines")]
    #[inline]
    pub fn read_at_referenced(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        self.mapping.check_home(Op::Read)?;
        Reader(&self.mapping).read_pages(buf, offset, ReadPath::Referenced, self.guide())
    }

    /// Calls `look` on page number `page` in place, and returns the result if the page did not
    /// change during the call. Copies nothing. Once the page's accessed bit is set, the first
    /// attempts take no reference and write no shared memory. If they fail because the page has
    /// changed or was evicted, `look` is called again, at last with a reference, so that the bytes
    /// cannot change. A page that is not cached is read as by [`read_at`](Self::read_at). The view
    /// of the last page ends at the file's size.
    ///
    /// # Rules for the closure
    ///
    /// - **Only the result of the view is consistent.** Two accesses of the [`View`] may see
    ///   different states of the page. The closure may be called any number of times, so it should
    ///   have no effects except its result. Variables that it has set are consistent after the
    ///   *last* call, if the view returns `Ok`.
    /// - **Inconsistent bytes are harmless.** A failed access returns [`Torn`], which `?` passes
    ///   on. A closure that follows a cycle of offsets ends: every 64th access checks whether the
    ///   page has changed, and a view of an unchanged page ends after 64 accesses per byte.
    /// - **Other code of the closure is not checked.** The closure must check an index or a loop
    ///   length that it reads, like any other input, or call
    ///   [`check`](pagewell_frame::PageView::check) first. A panic propagates, and no lock or
    ///   reference stays held.
    /// - The closure may use the cache. If it changes the page of the view, the view is repeated.
    ///
    /// # Errors
    ///
    /// [`Malformed`](crate::ErrorKind::Malformed), with the page, if offsets in the page lead out
    /// of it or form a cycle; and the errors of [`pin`](Self::pin).
    ///
    /// # Example
    ///
    /// A node of a tree: the number of keys (two bytes), and for each key, in ascending order, its
    /// offset in the page and its length (two bytes each).
    ///
    /// ```
    /// # mod pagewell { pub use pagewell_cache::*;
    /// #     pub mod io { pub use pagewell_io::MemoryBackend; } }
    /// use pagewell::{Cache, Error, File};
    ///
    /// /// The number of `key` in the node, or of the first larger one.
    /// fn find(file: &File, page: u64, key: &[u8]) -> Result<Result<usize, usize>, Error> {
    ///     file.view(page, |v| {
    ///         let count = v.u16_le(0)?.into();
    ///         v.search(2, 4, count, |v, slot| {
    ///             let start = usize::from(v.u16_le(slot)?);
    ///             let len = usize::from(v.u16_le(slot + 2)?);
    ///             v.part(start..start + len)?.compare_all(key)
    ///         })
    ///     })
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut node = vec![0; 4096];
    /// node[0] = 3;
    /// for (nr, key) in [&b"ant"[..], b"bee", b"cicada"].into_iter().enumerate() {
    ///     let start = 1000 + 10 * nr;
    ///     node[start..][..key.len()].copy_from_slice(key);
    ///     node[2 + 4 * nr..][..2].copy_from_slice(&(start as u16).to_le_bytes());
    ///     node[4 + 4 * nr..][..2].copy_from_slice(&(key.len() as u16).to_le_bytes());
    /// }
    /// let cache = Cache::builder().capacity(16 << 20).build()?;
    /// let file = cache.open_backend(pagewell::io::MemoryBackend::new(node), "node")?;
    /// assert_eq!(find(&file, 0, b"bee")?, Ok(1));
    /// assert_eq!(find(&file, 0, b"cat")?, Err(2));
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn view<R, F>(&self, page: u64, look: F) -> Result<R, Error>
    where
        F: FnMut(&View<'_>) -> Result<R, Torn>,
    {
        Viewer(&self.mapping).view(page, look, || self.guide().on_miss(page, 1))
    }

    /// Views a page like [`view`](Self::view), but only if it is cached and no thread changes it,
    /// with one call of `look`. On `None`, which implies nothing about the page, the caller calls
    /// `view`. Acquires no lock, waits for nothing, and calls only `look`.
    #[inline(always)]
    #[must_use]
    pub fn try_view<R, F>(&self, page: u64, mut look: F) -> Option<R>
    where
        F: FnMut(&View<'_>) -> Result<R, Torn>,
    {
        Viewer(&self.mapping).view_once(page, &mut look)
    }

    /// Whether the page of `token` is unchanged since the view that returned the token, and no
    /// thread is about to change it. Takes three loads of shared memory, and writes nothing.
    ///
    /// So a reader can traverse pages without pins: it views a page, then the page that this page
    /// names, and checks that the first is unchanged. If so, both were at one moment as the views
    /// saw them. (`docs/guide/views-and-tokens.md`)
    ///
    /// A change is any write to the page, even of the same bytes, a change of the file's end within
    /// it, its removal from the cache, or its move to another frame; not a read, pin or writeback.
    /// However long a token is kept, a changed page is never reported as unchanged. Occasionally an
    /// unchanged page is reported as changed, as is the page of another file or an earlier opening.
    #[inline]
    #[must_use]
    pub fn is_unchanged(&self, token: &Token) -> bool {
        self.mapping.is_unchanged(token)
    }

    /// Checks as [`is_unchanged`](Self::is_unchanged) does, but distinguishes a changed page from a
    /// claimed one, which may prove to be unchanged, for example after a writeback.
    #[inline]
    pub fn token_state(&self, token: &Token) -> TokenState {
        self.mapping.token_state(token)
    }

    /// Pins page number `page` (the bytes from `page * page_size()` on) and gives access to its
    /// bytes in place. They do not change while the guard exists, and the page stays in memory.
    ///
    /// Repeated pins of a page, by any number of threads, usually write no shared memory: each is
    /// published in a hazard slot of its thread (`docs/adr/0031-*`). The guard may be sent to other
    /// threads, and may outlive its thread. The guard of the last page ends at the file's size.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`](crate::ErrorKind::OutOfRange) if the page begins at or past the end of the
    /// file, [`TooManyPins`](crate::ErrorKind::TooManyPins) after 2^30 pins, and the errors of
    /// [`read_at`](Self::read_at).
    #[inline]
    pub fn pin(&self, page: u64) -> Result<PageGuard<'_>, Error> {
        match PageGuard::of_hot(&self.mapping, page) {
            Some(guard) => Ok(guard),
            None => self.pin_slowly(page),
        }
    }

    /// Pins as [`pin`](Self::pin) does, if this writes no shared memory. On `None`, which implies
    /// nothing about the page, the caller calls `pin`. Acquires no lock, and waits for nothing.
    #[inline(always)]
    #[must_use]
    pub fn try_pin(&self, page: u64) -> Option<PageGuard<'_>> {
        PageGuard::announced(&self.mapping, page)
    }

    #[cold]
    #[inline(never)]
    fn pin_slowly(&self, page: u64) -> Result<PageGuard<'_>, Error> {
        PageGuard::new(&self.mapping, page).map_err(|error| error.with_op(Op::Pin))
    }

    /// Pins by a counted reference: a baseline for pins in hazard slots.
    ///
    /// # Errors
    ///
    /// See [`pin`](Self::pin).
    #[cfg(feature = "baselines")]
    #[inline]
    pub fn pin_counted(&self, page: u64) -> Result<PageGuard<'_>, Error> {
        PageGuard::counted(&self.mapping, page).map_err(|error| error.with_op(Op::Pin))
    }

    /// Pins as [`pin`](Self::pin) does. The guard may outlive the handle, file and cache: it keeps
    /// the page's bytes and their memory, but does not keep the file open.
    ///
    /// # Errors
    ///
    /// See [`pin`](Self::pin).
    #[inline]
    pub fn pin_owned(&self, page: u64) -> Result<OwnedPageGuard, Error> {
        match OwnedPageGuard::announced(&self.mapping, page) {
            Some(guard) => Ok(guard),
            None => self.pin_owned_by_count(page),
        }
    }

    #[inline(never)]
    fn pin_owned_by_count(&self, page: u64) -> Result<OwnedPageGuard, Error> {
        OwnedPageGuard::new(&self.mapping, page).map_err(|error| error.with_op(Op::Pin))
    }

    /// Pins as [`pin_owned`](Self::pin_owned) does, by a counted reference: a baseline.
    ///
    /// # Errors
    ///
    /// See [`pin`](Self::pin).
    #[cfg(feature = "baselines")]
    #[inline]
    pub fn pin_owned_counted(&self, page: u64) -> Result<OwnedPageGuard, Error> {
        OwnedPageGuard::counted(&self.mapping, page).map_err(|error| error.with_op(Op::Pin))
    }
}
