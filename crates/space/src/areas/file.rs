//! State of an area that maps a file.
//!
//! A *shared* area reads and writes the pages of the file through the file's index. A *private*
//! area reads them until it writes to a page; its tables then name a private copy like any
//! anonymous page. No entry names a page of a file, so the cache evicts, writes back, truncates or
//! moves its pages without a search for entries
//! (`docs/adr/0010-mapped-files-use-the-file-index.md`).
//!
//! Each file has an interval tree of its private areas, by their position in the file, in units of
//! 4 KiB, to find copies in a truncation ([`crate::areas::cut`]).
//!
//! F3: a private area is linked from before an entry of its space can name a copy of a page of the
//! file until no entry does. F1 of [`crate::pages::links`] states the same for families.

use std::ops::Range;
use std::sync::Arc;

use pagewell_cache::MappedFile;
use pagewell_frame::{FRAME_BYTES, Order};

use crate::pages::links::{Link, Links};
use crate::tables::of_space::PageTables;
use crate::words::claim::look;
use crate::words::geometry::entry_of;
use crate::words::pmd::{Directory, Pmd};
use crate::words::pte::{Protection, Pte, State};

/// Handle of a mapped file, which all parts and forks of an area share.
#[repr(align(128))] // Hits load it: the counts of its `Arc` are on other lines.
pub(crate) struct Backing {
    pub(crate) file: MappedFile,
    pub(crate) maps: Arc<FileMaps>,
}

/// Directory and table words of a page. While they are unchanged, it has no private copy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoCopy {
    pmd: Pmd,
    entry: Option<Pte>,
}

/// State of an area that maps a file. It is immutable: a changed area has a new state.
#[repr(align(128))] // Hits load it: the counts of its `Arc`, which misses change, are elsewhere.
pub(crate) struct FileArea {
    pub(crate) backing: Arc<Backing>,
    pub(crate) sharing: Sharing,
    pub(crate) range: Range<u64>,
    /// Position in the file of the first byte of the area.
    pub(crate) first_byte: u64,
    pub(crate) protection: Protection,
    pub(crate) page_shift: u32,
}

impl FileArea {
    pub(crate) fn part(&self, range: &Range<u64>, start: u64) -> Self {
        Self {
            backing: Arc::clone(&self.backing),
            range: start..start + (range.end - range.start),
            first_byte: self.pos_of(range.start),
            ..*self
        }
    }

    pub(crate) fn protected(&self, protection: Protection) -> Self {
        Self {
            backing: Arc::clone(&self.backing),
            range: self.range.clone(),
            protection,
            ..*self
        }
    }

    pub(crate) fn file(&self) -> &MappedFile {
        &self.backing.file
    }

    #[inline(always)]
    pub(crate) fn shows(&self, addr: u64) -> bool {
        addr.wrapping_sub(self.range.start) < self.range.end - self.range.start
    }

    /// Returns the position in the file of the byte at `addr`, which must be in the area.
    #[inline(always)]
    pub(crate) fn pos_of(&self, addr: u64) -> u64 {
        self.first_byte + (addr - self.range.start)
    }

    pub(crate) fn page_of(&self, addr: u64) -> u64 {
        self.pos_of(addr) >> self.page_shift
    }

    #[inline]
    pub(crate) fn bytes_to_page_end(&self, addr: u64) -> usize {
        let page_bytes = 1_u64 << self.page_shift;
        (page_bytes - (self.pos_of(addr) & (page_bytes - 1))) as usize
    }

    pub(crate) fn order(&self) -> Order {
        let order = self.page_shift - FRAME_BYTES.trailing_zeros();
        Order::new(order as u8).unwrap_or(Order::ZERO)
    }

    #[inline]
    pub(crate) fn writes_file(&self) -> bool {
        self.sharing == Sharing::Shared && self.protection.allows_writes()
    }

    /// Returns `false` if a shared area of a read-only file would become writable.
    pub(crate) fn may_be(&self, protection: Protection) -> bool {
        self.sharing == Sharing::Private || !protection.allows_writes() || self.file().is_writable()
    }

    pub(crate) fn link<T: LinkedSpace + 'static>(&self, id: u64, space: &Arc<T>) {
        if self.sharing == Sharing::Shared {
            return;
        }
        let frame = FRAME_BYTES as u64;
        let first = self.first_byte / frame;
        let space: Arc<dyn LinkedSpace> = Arc::<T>::clone(space);
        let link = Link {
            to: space,
            addr: self.range.start,
            first,
            end: first + (self.range.end - self.range.start) / frame,
        };
        self.backing.maps.private.link(id, link);
    }

    pub(crate) fn unlink(&self, id: u64) {
        if self.sharing == Sharing::Private {
            let first = self.first_byte / FRAME_BYTES as u64;
            self.backing.maps.private.unlink(id, first);
        }
    }

    /// Returns `None` if this area, which must be private, has a copy of the page at `addr`. The
    /// result is a hint, since a write may copy the page at any time. If a later call returns the
    /// same words, there was no copy in between.
    #[inline(always)]
    pub(crate) fn no_copy(&self, tables: &PageTables, addr: u64) -> Option<NoCopy> {
        let pmd = Directory::look(tables.pmd_word(addr)?);
        if !pmd.is_present() {
            return Some(NoCopy { pmd, entry: None });
        }
        let order = u32::from(self.order().get());
        if pmd.order() != order {
            return None;
        }
        let entry = look(tables.entry(pmd, entry_of(addr, order)));
        let is_empty = matches!(entry.state(), State::Empty);
        is_empty.then_some(NoCopy {
            pmd,
            entry: Some(entry),
        })
    }
}

/// Destination of writes to an area that maps a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// Writes go to the file.
    Shared,
    /// Writes change private copies of the pages.
    Private,
}

pub(crate) trait LinkedSpace: Send + Sync {
    fn directory(&self) -> &Directory;

    /// Drops copies, in areas linked to `maps`, of pages past the end of a file of `size` bytes.
    fn drop_copies(&self, maps: &FileMaps, size: u64);
}

#[derive(Default)]
pub(crate) struct FileMaps {
    pub(crate) private: Links<Arc<dyn LinkedSpace>>,
}
