//! Groups of files: what a tenant is guaranteed, and may have at most.

use std::fmt;
use std::sync::Arc;

use pagewell_frame::FRAME_BYTES;

use crate::base::accounts::{Member, NO_MAX};

/// A group of files, to which the frames of their pages are charged. Cheap to clone.
///
/// It is what tenants, tables or jobs are kept apart with, as by `memory.min` and `memory.max` of Linux's control groups:
///
/// - **At most.** The files of a group never have more than [`max`](crate::GroupBuilder::max) bytes of the cache together: their pages, and
///   the leaves of their indices. A group that has all of it evicts pages of its own, in the order of a cache of that size.
/// - **Guaranteed.** Of a group that has no more than [`min`](crate::GroupBuilder::min) bytes, nobody else evicts a page. Nothing is set aside: what
///   the group does not use, others may.
/// - **One budget.** All else is for all. Groups without a limit, and the files of no group, are evicted from as if there were no groups.
///
/// Not charged: pages that only a pin keeps, since they were written to or cut off; and 4 KiB for each 32 MiB of a file that are in use,
/// which the cache needs for files that are written to.
///
/// A group exists as long as a handle of it does, or a file is open in it. [`Cache::group`](crate::Cache::group) with its name finds it.
///
/// ```
/// # mod pagewell { pub use pagewell_cache::*; }
/// use pagewell::{Cache, OpenOptions};
/// # let path = std::env::temp_dir().join(format!("pagewell-group-{}", std::process::id()));
/// # std::fs::write(&path, b"words")?;
/// let cache = Cache::builder().capacity(16 << 20).build()?;
/// let batch = cache.group("batch jobs").max(4 << 20).build()?;
/// let shop = cache.group("shop").min(8 << 20).build()?;
/// let file = cache.open_with(&path, &OpenOptions::new().group(&batch))?;
/// let mut word = [0; 5];
/// file.read_at(&mut word, 0)?;
/// assert!((1..=4 << 20).contains(&batch.used()));
/// assert_eq!(shop.used(), 0);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Group(pub(super) Arc<Member>);

impl Group {
    /// Its name.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// How many bytes of the cache it has, with what is being read or written just now.
    pub fn used(&self) -> u64 {
        bytes(self.0.account().nr_used())
    }

    /// How many bytes of it are not known to be durable.
    pub fn unclean(&self) -> u64 {
        bytes(self.0.account().nr_unclean())
    }

    /// How many bytes it is guaranteed.
    pub fn min(&self) -> u64 {
        bytes(self.0.account().limits().min)
    }

    /// How many bytes it may have; none, if it has no limit.
    pub fn max(&self) -> Option<u64> {
        match self.0.account().limits().max {
            NO_MAX => None,
            max => Some(bytes(max)),
        }
    }
}

pub(super) const fn bytes(nr_frames: usize) -> u64 {
    nr_frames as u64 * FRAME_BYTES as u64
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("name", &self.name())
            .field("used", &self.used())
            .field("min", &self.min())
            .field("max", &self.max())
            .finish()
    }
}
