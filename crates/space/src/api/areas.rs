//! Areas: mapping, unmapping, protecting, moving; forks.

use std::ops::Range;

use pagewell_cache::File;

use crate::areas::file::Sharing;
use crate::areas::options::{AreaInfo, MapOptions, Policy};
#[cfg(feature = "baselines")]
use crate::change::fork::ForkMode;
use crate::change::fork::Forker;
use crate::change::map::Mapper;
use crate::change::map_file::FileMapper;
use crate::error::Error;
use crate::mm::handles::Space;
use crate::words::pte::Protection;

impl Space {
    /// As [`map_with`](Self::map_with), with pages of 4 KiB for reading and writing.
    pub fn map(&self, len: u64, policy: Policy) -> Result<Range<u64>, Error> {
        self.map_with(len, &MapOptions::new().policy(policy))
    }

    /// Maps an area of `len` bytes of zeros, rounded up to whole pages. Returns its addresses,
    /// which begin at a multiple of 2 MiB.
    ///
    /// # Errors
    ///
    /// [`ErrorKind`](crate::ErrorKind): `InvalidRange` if `len` is 0, `InvalidConfig` for an
    /// invalid page size, `NoSuchNode` or `OutOfAddresses`.
    pub fn map_with(&self, len: u64, options: &MapOptions) -> Result<Range<u64>, Error> {
        Mapper::of(&self.mm).map(len, options)
    }

    /// Unmaps the pages of `range`, which must be mapped completely, by any number of areas.
    ///
    /// # Errors
    ///
    /// [`ErrorKind`](crate::ErrorKind): `Misaligned` unless the range begins and ends at page
    /// boundaries; `InvalidRange` if it is empty or exceeds the addresses of the space; `Unmapped`
    /// unless all its pages are mapped; `OutOfFrames` or `TooManyEntries` if a table that is shared
    /// with a fork must be copied, since it stays in use in part; `Refused` where a file is mapped.
    pub fn unmap(&self, range: Range<u64>) -> Result<(), Error> {
        Mapper::of(&self.mm).unmap(range)
    }

    /// Sets the permitted accesses of the pages of `range`, which must be mapped completely. Fails
    /// as [`unmap`](Self::unmap) does, or with `ReadOnly` if writes would go to a read-only file.
    pub fn protect(&self, range: Range<u64>, protection: Protection) -> Result<(), Error> {
        Mapper::of(&self.mm).protect(range, protection)
    }

    /// Moves the pages of `range`, which must be mapped completely, and returns the new addresses.
    /// Fails as [`unmap`](Self::unmap) does, or with `OutOfAddresses`.
    pub fn move_to_free(&self, range: Range<u64>) -> Result<Range<u64>, Error> {
        Mapper::of(&self.mm).move_to_free(range)
    }

    /// Returns the areas of the space, in ascending order.
    pub fn areas(&self) -> Vec<AreaInfo> {
        Mapper::of(&self.mm).areas()
    }

    /// As [`map_file_with`](Self::map_file_with), for reading and writing.
    pub fn map_file(
        &self,
        file: &File,
        range: Range<u64>,
        sharing: Sharing,
    ) -> Result<Range<u64>, Error> {
        self.map_file_with(file, range, sharing, &MapOptions::new())
    }

    /// Maps the bytes `range` of a file, rounded up to whole pages of the file. Returns the
    /// addresses, which begin at a multiple of 2 MiB. The range may exceed the file.
    ///
    /// The page size is that of the file, whatever the options are. The file stays open, with the
    /// rights of this handle, until the whole area is unmapped in this space and in its forks.
    ///
    /// - [`Sharing::Shared`]: reads return the file's current bytes. Writes go to the file, whose
    ///   pages become dirty, and are durable after a sync of it. A fork maps the same file.
    /// - [`Sharing::Private`]: reads return the file's current bytes, until the first write to a
    ///   page, which copies it to a node of the policy. The copy belongs to the space and to later
    ///   forks.
    ///
    /// Where the file has no page, accesses fail with [`PastEnd`](crate::ErrorKind::PastEnd). In
    /// its last page, bytes past the end read as zeros. They can be neither written in a shared
    /// area, nor pinned unless they are in a private copy. A truncation removes the pages past the
    /// new end, including private copies. If the file grows again, these pages read as zeros.
    ///
    /// # Errors
    ///
    /// [`ErrorKind`](crate::ErrorKind): `InvalidRange` if the range is empty or exceeds the largest
    /// file; `Misaligned` unless it begins at a page of the file; `OtherFrames` if the space's
    /// frames are not those of the file's cache; `ReadOnly` for a shared writable area of a
    /// read-only handle; `NoSuchNode` or `OutOfAddresses`.
    pub fn map_file_with(
        &self,
        file: &File,
        range: Range<u64>,
        sharing: Sharing,
        options: &MapOptions,
    ) -> Result<Range<u64>, Error> {
        FileMapper::of(&self.mm).map(file.mapped(), range, sharing, options)
    }

    /// Sets the nodes for new pages of `range`, which must be mapped completely. Existing pages
    /// stay until [`migrate`](Self::migrate) moves them. Compaction follows the policy under which
    /// a page was created. Fails with [`ErrorKind`](crate::ErrorKind) `NoSuchNode`, `InvalidRange`,
    /// `Misaligned`, `Unmapped` or `Refused`.
    pub fn set_policy(&self, range: Range<u64>, policy: Policy) -> Result<(), Error> {
        Mapper::of(&self.mm).set_policy(range, policy)
    }

    /// Creates a space with the same areas and, as of one point in time, the same bytes. All pages
    /// are shared until one of the spaces writes. Fails with [`ErrorKind`](crate::ErrorKind)
    /// `OutOfMemory` for the directory, or `Refused`.
    pub fn fork(&self) -> Result<Self, Error> {
        let mm = Forker::of(&self.mm).fork()?;
        Ok(Space { mm })
    }

    /// As [`fork`](Self::fork), with `mode`. [`ForkMode::Copy`] may also fail with `OutOfFrames` or
    /// `TooManyEntries`.
    #[cfg(feature = "baselines")]
    pub fn fork_with(&self, mode: ForkMode) -> Result<Self, Error> {
        let child = self.fork()?;
        if mode == ForkMode::Copy {
            // If this fails, the drop of the child undoes the fork.
            let of_child = Forker::of(&child.mm);
            child.mm.with_room(|| of_child.own_all_tables())?;
        }
        Ok(child)
    }
}
