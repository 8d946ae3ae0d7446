//! Areas: mapping, unmapping, protecting, moving; forks.

use std::ops::Range;

#[cfg(not(loom))]
use pagewell_cache::File;
use pagewell_frame::refcount::RefScheme;

use crate::api::handles::Space;
#[cfg(not(loom))]
use crate::areas::maps::Sharing;
use crate::areas::policy::Policy;
#[cfg(feature = "baselines")]
use crate::change::fork::ForkMode;
use crate::change::fork::Forker;
use crate::change::map::Mapper;
#[cfg(not(loom))]
use crate::change::map_file::FileMapper;
use crate::change::options::{AreaInfo, MapOptions};
use crate::error::Error;
use crate::words::pte::Protection;

impl<S: RefScheme> Space<S> {
    /// Maps an area of `len` bytes of zeros, rounded up to whole pages of 4 KiB, for reading and writing. Returns its
    /// addresses.
    ///
    /// # Errors
    ///
    /// As [`map_with`](Self::map_with).
    pub fn map(&self, len: u64, policy: Policy) -> Result<Range<u64>, Error> {
        self.map_with(len, &MapOptions::new().policy(policy))
    }

    /// Maps an area of `len` bytes of zeros, rounded up to whole pages. Returns its addresses, which begin at a multiple
    /// of 2 MiB.
    ///
    /// # Errors
    ///
    /// [`InvalidRange`](crate::ErrorKind::InvalidRange) when `len` is 0, [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for a
    /// page size that there is not, [`NoSuchNode`](crate::ErrorKind::NoSuchNode),
    /// [`OutOfAddresses`](crate::ErrorKind::OutOfAddresses).
    pub fn map_with(&self, len: u64, options: &MapOptions) -> Result<Range<u64>, Error> {
        Mapper::of(&self.mm).map(len, options)
    }

    /// Unmaps the pages of `range`, all of which must be mapped: in one area or in several, or parts of them.
    ///
    /// # Errors
    ///
    /// [`InvalidRange`](crate::ErrorKind::InvalidRange), [`Misaligned`](crate::ErrorKind::Misaligned) unless it begins and ends
    /// where pages do, [`Unmapped`](crate::ErrorKind::Unmapped), [`OutOfFrames`](crate::ErrorKind::OutOfFrames) and
    /// [`TooManyEntries`](crate::ErrorKind::TooManyEntries) when a table that is shared with a fork has to be copied, since a
    /// part of it stays mapped, and [`Refused`](crate::ErrorKind::Refused) where a file is mapped. Nothing was unmapped then.
    pub fn unmap(&self, range: Range<u64>) -> Result<(), Error> {
        Mapper::of(&self.mm).unmap(range)
    }

    /// Sets what may be done with the pages of `range`, all of which must be mapped.
    ///
    /// # Errors
    ///
    /// As [`unmap`](Self::unmap), and [`ReadOnly`](crate::ErrorKind::ReadOnly) when writes would go to a file that is open for
    /// reading only; nothing has changed then.
    pub fn protect(&self, range: Range<u64>, protection: Protection) -> Result<(), Error> {
        Mapper::of(&self.mm).protect(range, protection)
    }

    /// Moves the pages of `range`, all of which must be mapped, to other addresses, which are returned; the old ones are
    /// not mapped afterwards.
    ///
    /// # Errors
    ///
    /// As [`unmap`](Self::unmap), and [`OutOfAddresses`](crate::ErrorKind::OutOfAddresses); nothing has moved then.
    pub fn move_to_free(&self, range: Range<u64>) -> Result<Range<u64>, Error> {
        Mapper::of(&self.mm).move_to_free(range)
    }

    /// The areas of the space, in ascending order: addresses, protection, policy, and the size of a page in bytes.
    pub fn areas(&self) -> Vec<AreaInfo> {
        Mapper::of(&self.mm).areas()
    }

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
    /// Where the file has no page, accesses fail with [`PastEnd`](crate::ErrorKind::PastEnd). Within its last page, what lies
    /// past the end reads as zeros; it cannot be written in a shared area, nor pinned, unless it is in a private copy. Who makes
    /// the file shorter takes the pages past the new end away, private copies too; it may grow again, and has zeros there then.
    ///
    /// # Errors
    ///
    /// [`InvalidRange`](crate::ErrorKind::InvalidRange) when the range is empty or reaches beyond the largest file,
    /// [`Misaligned`](crate::ErrorKind::Misaligned) unless it begins with a page of the file,
    /// [`OtherFrames`](crate::ErrorKind::OtherFrames) when the space's frames are not those of the file's cache,
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly) for an area that is shared and may be written, of a handle for reading,
    /// [`NoSuchNode`](crate::ErrorKind::NoSuchNode), [`OutOfAddresses`](crate::ErrorKind::OutOfAddresses).
    #[cfg(not(loom))]
    pub fn map_file_with(
        &self,
        file: &File<S>,
        range: Range<u64>,
        sharing: Sharing,
        options: &MapOptions,
    ) -> Result<Range<u64>, Error> {
        FileMapper::of(&self.mm).map(file.mapped(), range, sharing, options)
    }

    /// Sets on which nodes the pages of `range`, all of which must be mapped, are to be: those that are made from now on.
    /// Pages that exist stay where they are; [`migrate`](Self::migrate) moves them. Compaction goes by the policy that a
    /// page was made under.
    ///
    /// # Errors
    ///
    /// [`NoSuchNode`](crate::ErrorKind::NoSuchNode), [`InvalidRange`](crate::ErrorKind::InvalidRange),
    /// [`Misaligned`](crate::ErrorKind::Misaligned), [`Unmapped`](crate::ErrorKind::Unmapped),
    /// [`Refused`](crate::ErrorKind::Refused). Nothing has changed then.
    pub fn set_policy(&self, range: Range<u64>, policy: Policy) -> Result<(), Error> {
        Mapper::of(&self.mm).set_policy(range, policy)
    }

    /// A space with the same areas and, as of one point in time, the same bytes. All pages are shared until either writes.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`](crate::ErrorKind::OutOfMemory) when the system gives no addresses for the directory,
    /// [`Refused`](crate::ErrorKind::Refused). Nothing has changed then.
    pub fn fork(&self) -> Result<Self, Error> {
        let mm = Forker::of(&self.mm).fork()?;
        Ok(Space { mm })
    }

    /// For comparisons: as [`fork`](Self::fork), as `mode` says.
    ///
    /// # Errors
    ///
    /// As [`fork`](Self::fork), and for [`ForkMode::Copy`] [`OutOfFrames`](crate::ErrorKind::OutOfFrames) and
    /// [`TooManyEntries`](crate::ErrorKind::TooManyEntries). The fork is undone whole then.
    #[cfg(feature = "baselines")]
    pub fn fork_with(&self, mode: ForkMode) -> Result<Self, Error> {
        let child = self.fork()?;
        if mode == ForkMode::Copy {
            // If it fails, dropping the child undoes it.
            let of_child = Forker::of(&child.mm);
            child.mm.with_room(|| of_child.own_all_tables())?;
        }
        Ok(child)
    }
}
