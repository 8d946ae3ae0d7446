//! Mapping files.

use std::ops::Range;
use std::sync::Arc;

#[cfg(not(loom))]
use pagewell_cache::File;
use pagewell_cache::{MAX_FILE_BYTES, MappedFile};
use pagewell_frame::refcount::RefScheme;
use pagewell_sync::write;

use crate::areas::area::Area;
use crate::areas::file::{Backing, FileArea, FileMaps, Sharing};
use crate::change::map::MapOptions;
use crate::error::{Error, ErrorKind, Op};
use crate::mm::mm::Space;

impl<S: RefScheme> Space<S> {
    /// Maps the bytes `range` of a file, rounded up to whole pages of it, for reading and writing. Returns the addresses.
    ///
    /// # Errors
    ///
    /// As [`map_file_with`](Self::map_file_with).
    #[cfg(not(loom))]
    pub fn map_file(
        &self,
        file: &File<S>,
        range: Range<u64>,
        sharing: Sharing,
    ) -> Result<Range<u64>, Error> {
        self.map_file_with(file, range, sharing, &MapOptions::new())
    }

    /// Maps the bytes `range` of a file, rounded up to whole pages of it. Returns the addresses, which begin at a multiple
    /// of 2 MiB. The range may reach beyond the end of the file, which may grow into it later.
    ///
    /// Pages have the size of the file's, whatever the options say. The file stays open, with the rights of this handle,
    /// until all of the area is unmapped, in forks too.
    ///
    /// - [`Sharing::Shared`]: reads have the file's bytes as they are, and writes are writes to the file, with all that
    ///   this means: they are dirty, written back, and made durable by a sync of the file. A fork has the same file.
    /// - [`Sharing::Private`]: reads have the file's bytes as they are, until the first write to a page, which copies it.
    ///   From then on the page is the space's own; its forks have it too. The policy says where copies are.
    ///
    /// Where the file has no page, accesses fail with [`PastEnd`](ErrorKind::PastEnd). Within its last page, what lies past
    /// the end reads as zeros; it cannot be written in a shared area, nor pinned, unless it is in a private copy. Who makes the file shorter takes the pages
    /// past the new end away, private copies too; it may grow again, and has zeros there then.
    ///
    /// # Errors
    ///
    /// [`InvalidRange`](ErrorKind::InvalidRange) when the range is empty or reaches beyond the largest file,
    /// [`Misaligned`](ErrorKind::Misaligned) unless it begins with a page of the file,
    /// [`OtherFrames`](ErrorKind::OtherFrames) when the space's frames are not those of the file's cache,
    /// [`ReadOnly`](ErrorKind::ReadOnly) for an area that is shared and may be written, of a handle for reading,
    /// [`NoSuchNode`](ErrorKind::NoSuchNode), [`OutOfAddresses`](ErrorKind::OutOfAddresses).
    #[cfg(not(loom))]
    pub fn map_file_with(
        &self,
        file: &File<S>,
        range: Range<u64>,
        sharing: Sharing,
        options: &MapOptions,
    ) -> Result<Range<u64>, Error> {
        self.map_mapped(file.mapped(), range, sharing, options)
    }

    pub(crate) fn map_mapped(
        &self,
        file: MappedFile<S>,
        range: Range<u64>,
        sharing: Sharing,
        options: &MapOptions,
    ) -> Result<Range<u64>, Error> {
        let failed = |kind| Error::new(kind, Op::Map);
        let shared = &self.inner.shared;
        let page_bytes = file.page_bytes() as u64;
        options
            .check_node(shared.pool().nr_nodes())
            .map_err(failed)?;
        if !file.is_in(shared.pool()) {
            return Err(failed(ErrorKind::OtherFrames));
        }
        if range.start >= range.end || range.end > MAX_FILE_BYTES {
            return Err(failed(ErrorKind::InvalidRange));
        }
        if !range.start.is_multiple_of(page_bytes) {
            return Err(failed(ErrorKind::Misaligned));
        }
        let maps = file
            .user_or_else(|| Arc::new(FileMaps::<S>::new()))
            .ok_or_else(|| failed(ErrorKind::OtherFrames))?;
        // Dropped after the lock, if it comes to that: closing a file may take as long as the storage does.
        let backing = Arc::new(Backing { file, maps });
        let len = (range.end - range.start).next_multiple_of(page_bytes);
        let mut areas = write(&self.inner.structure);
        let start = areas
            .find_room(len)
            .ok_or_else(|| failed(ErrorKind::OutOfAddresses))?;
        let addresses = start..start + len;
        let (protection, policy) = (options.protection, options.policy);
        let shown = FileArea::new(
            Arc::clone(&backing),
            sharing,
            addresses.clone(),
            range.start,
            protection,
        );
        if !shown.may_be(protection) {
            return Err(failed(ErrorKind::ReadOnly));
        }
        let order = shown.order();
        let id = shared.next_id();
        let area = Area::of_file(addresses.clone(), order, policy, id, Arc::new(shown));
        // F3.
        area.link(&self.inner);
        areas.insert(area);
        Ok(addresses)
    }
}
