//! Areas that show a file: what such an area knows, and from a file to its areas.
//!
//! What. A *shared* area has the file's pages: it reads and writes them through the index of the file, which is its page
//! table. A *private* area has the file's pages until it writes one; then it has a copy, in a page of its own that its
//! tables name as they do any anonymous page. So no entry ever names a page of a file, and the cache may evict, write
//! back, cut off or move its pages without looking for entries (`docs/adr/0010-areas-call-the-file.md`).
//!
//! The other way round, from pages of the file to what shows them, there are two interval tree of areas for each file, by
//! the frame of the file that an area begins with: of shared areas, and of private ones. The first is for those who ask
//! ([`crate::api::rmap`]); the second finds the copies of pages that are cut off ([`crate::areas::cut`]).
//!
//! F3: a private area is linked before any entry of its space can name a copy of a page of the file, and stays linked
//! until none does. As F1 of [`crate::pages::family`].
//!
//! Locks. As for families: the lock of a tree is taken with the structure lock of a space held, or with none.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use pagewell_cache::{HeldPage, MappedFile};
use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FRAME_BYTES, Order};

use crate::error::ErrorKind;
use crate::mm::mm::Inner;
use crate::pages::family::{Family, Link};
use crate::words::claim;
use crate::words::pte::Protection;

/// What writes to an area that shows a file do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// They are writes to the file.
    Shared,
    /// They are the area's own: the page is copied first.
    Private,
}

/// The areas that show one file, of all spaces.
pub(crate) struct FileMaps<S: RefScheme> {
    shared: Family<S>,
    pub(crate) private: Family<S>,
}

impl<S: RefScheme> FileMaps<S> {
    pub(crate) fn new() -> Self {
        Self {
            shared: Family::new(),
            private: Family::new(),
        }
    }

    pub(crate) fn of(&self, sharing: Sharing) -> &Family<S> {
        match sharing {
            Sharing::Shared => &self.shared,
            Sharing::Private => &self.private,
        }
    }
}

/// A file that areas show: one handle of it for all areas that came from one mapping.
pub(crate) struct Backing<S: RefScheme> {
    pub(crate) file: MappedFile<S>,
    pub(crate) maps: Arc<FileMaps<S>>,
}

/// What an area that shows a file knows. It does not change; an area that changes gets another one.
pub(crate) struct FileArea<S: RefScheme> {
    pub(crate) backing: Arc<Backing<S>>,
    pub(crate) sharing: Sharing,
    /// The area's addresses.
    pub(crate) range: Range<u64>,
    /// Which byte of the file the area begins with.
    pub(crate) first_byte: u64,
    pub(crate) protection: Protection,
    page_shift: u32,
}

impl<S: RefScheme> FileArea<S> {
    pub(crate) fn new(
        backing: Arc<Backing<S>>,
        sharing: Sharing,
        range: Range<u64>,
        first_byte: u64,
        protection: Protection,
    ) -> Self {
        let page_shift = backing.file.page_bytes().trailing_zeros();
        Self {
            backing,
            sharing,
            range,
            first_byte,
            protection,
            page_shift,
        }
    }

    /// The same for the part of the area at `range`, shown at the addresses from `start` on.
    pub(crate) fn part(&self, range: &Range<u64>, start: u64) -> Self {
        Self {
            backing: Arc::clone(&self.backing),
            range: start..start + (range.end - range.start),
            first_byte: self.pos_of(range.start),
            ..*self
        }
    }

    /// The same with another protection.
    pub(crate) fn protected(&self, protection: Protection) -> Self {
        Self {
            backing: Arc::clone(&self.backing),
            range: self.range.clone(),
            protection,
            ..*self
        }
    }

    pub(crate) fn file(&self) -> &MappedFile<S> {
        &self.backing.file
    }

    /// Whether `addr` is in the area.
    #[inline(always)]
    pub(crate) fn shows(&self, addr: u64) -> bool {
        addr.wrapping_sub(self.range.start) < self.range.end - self.range.start
    }

    /// Which byte of the file `addr`, of the area, shows.
    #[inline(always)]
    pub(crate) fn pos_of(&self, addr: u64) -> u64 {
        self.first_byte + (addr - self.range.start)
    }

    /// Which page of the file `addr`, of the area, is in.
    pub(crate) fn page_of(&self, addr: u64) -> u64 {
        self.pos_of(addr) >> self.page_shift
    }

    /// How many bytes there are from `addr` to the end of its page.
    #[inline]
    pub(crate) fn bytes_to_page_end(&self, addr: u64) -> usize {
        let page_bytes = 1_u64 << self.page_shift;
        (page_bytes - (self.pos_of(addr) & (page_bytes - 1))) as usize
    }

    /// The order of the pages.
    pub(crate) fn order(&self) -> Order {
        let order = self.page_shift - FRAME_BYTES.trailing_zeros();
        Order::new(order as u8).unwrap_or(Order::ZERO)
    }

    /// Whether writes are allowed, and go to the file.
    #[inline]
    pub(crate) fn writes_file(&self) -> bool {
        self.sharing == Sharing::Shared && self.protection.allows_writes()
    }

    /// Whether the area may be given this protection.
    pub(crate) fn may_be(&self, protection: Protection) -> bool {
        self.sharing == Sharing::Private || !protection.allows_writes() || self.file().is_writable()
    }

    pub(crate) fn link(&self, id: u64, space: &Arc<Inner<S>>) {
        let frame = FRAME_BYTES as u64;
        let first = self.first_byte / frame;
        let link = Link {
            space: Arc::clone(space),
            addr: self.range.start,
            first,
            end: first + (self.range.end - self.range.start) / frame,
        };
        self.backing.maps.of(self.sharing).link(id, link);
    }

    pub(crate) fn unlink(&self, id: u64) {
        let first = self.first_byte / FRAME_BYTES as u64;
        self.backing.maps.of(self.sharing).unlink(id, first);
    }
}

/// A page of a file that an access needs in the cache: to be got with no lock in hand.
pub(crate) struct Fault<S: RefScheme> {
    area: Arc<FileArea<S>>,
    addr: u64,
}

impl<S: RefScheme> Fault<S> {
    pub(crate) fn new(area: &Arc<FileArea<S>>, addr: u64) -> Self {
        Self {
            area: Arc::clone(area),
            addr,
        }
    }

    /// Gets the page into the cache, and keeps it there: the next try of the access finds it. What else there is to read of
    /// the `len` bytes from the address on comes along.
    pub(crate) fn hold(&self, len: usize) -> Result<HeldPage<'_, S>, ErrorKind> {
        claim::assert_none_held();
        let of_area = usize::try_from(self.area.range.end - self.addr).unwrap_or(usize::MAX);
        let off = self.area.file().page_bytes() - self.area.bytes_to_page_end(self.addr);
        let nr_pages = (off + len.min(of_area)).div_ceil(self.area.file().page_bytes());
        let page = self.area.page_of(self.addr);
        self.area
            .file()
            .hold(page, nr_pages.max(1))
            .map_err(of_file)
    }
}

/// What an error of the cache is to who uses a space.
pub(crate) fn of_file(error: pagewell_cache::Error) -> ErrorKind {
    match error.kind() {
        pagewell_cache::ErrorKind::OutOfRange => ErrorKind::PastEnd,
        pagewell_cache::ErrorKind::OutOfFrames => ErrorKind::OutOfFrames,
        pagewell_cache::ErrorKind::TooManyPins => ErrorKind::TooManyPins,
        pagewell_cache::ErrorKind::ReadOnly => ErrorKind::ReadOnly,
        kind => ErrorKind::File(kind),
    }
}

impl<S: RefScheme> fmt::Debug for FileArea<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileArea")
            .field("file", &self.file())
            .field("sharing", &self.sharing)
            .field("range", &self.range)
            .field("first_byte", &self.first_byte)
            .finish_non_exhaustive()
    }
}
