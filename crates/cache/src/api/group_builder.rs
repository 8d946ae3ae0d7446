//! How a group of files is made, and gets its limits.

use pagewell_frame::FRAME_BYTES;
use pagewell_frame::refcount::RefScheme;

use crate::api::cache::Cache;
use crate::api::group::{Group, bytes};
use crate::base::accounts::{GroupLimits, NO_MAX};
use crate::base::error::{Error, ErrorKind, Op};
use crate::mapping::record::least_for;
use crate::supply::groups::Charger;

/// The smallest limit, in frames: below this a few threads could have all of it on its way in.
const LEAST_MAX: u64 = 16;

/// Such a part of the cache is guaranteed to nobody.
const PART_OF_NOBODY: usize = 16;

/// A group that is about to be made, or to get other limits.
#[derive(Clone, Debug)]
#[must_use]
pub struct GroupBuilder<S: RefScheme> {
    cache: Cache<S>,
    name: String,
    min: Option<u64>,
    max: Option<u64>,
}

impl<S: RefScheme> Cache<S> {
    /// The group called `name`: to be made, or found, and given limits. A cache has up to 127 groups at a time.
    pub fn group(&self, name: impl Into<String>) -> GroupBuilder<S> {
        GroupBuilder {
            cache: self.clone(),
            name: name.into(),
            min: None,
            max: None,
        }
    }
}

impl<S: RefScheme> GroupBuilder<S> {
    /// How many bytes the group is guaranteed, rounded down to frames of 4 KiB. All groups together may be guaranteed fifteen sixteenths of
    /// the cache. Default: what it has, or none if the group is new.
    pub fn min(mut self, bytes: u64) -> Self {
        self.min = Some(bytes);
        self
    }

    /// How many bytes the group may have, rounded down to frames of 4 KiB; 64 KiB at the least, and room for four pages of its files.
    /// [`u64::MAX`] is no limit. Default: what it has, or no limit if the group is new.
    ///
    /// The first limit in a cache takes 0.14 % of the cache's memory for what the eviction policy has to know.
    pub fn max(mut self, bytes: u64) -> Self {
        self.max = Some(bytes);
        self
    }

    /// Makes the group; or finds it, and gives it the limits that were named. If the group has more than its new limit, pages of it
    /// are evicted.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`](ErrorKind::InvalidConfig) when a limit is out of its range, or there are too many groups;
    /// [`OutOfFrames`](ErrorKind::OutOfFrames) when the group has more than its new limit, and its pages cannot be evicted. Then its
    /// limits are as before.
    pub fn build(self) -> Result<Group, Error> {
        let invalid =
            |detail: String| Error::new(ErrorKind::InvalidConfig, Op::Build).with_detail(detail);
        let files = self.cache.files();
        files.shared.home.check(Op::Build)?;
        let supply = files.supply();
        let accounts = &supply.claims.accounts;
        // Limits are changed one after the other, so that their sum is right.
        let _changing = accounts.lock_to_change();
        let member = accounts.member(&self.name).ok_or_else(|| {
            invalid(format!(
                "group '{}': there are as many groups as a cache can have",
                self.name
            ))
        })?;
        let before = member.account().limits();
        let frames = |bytes: u64| usize::try_from(bytes / FRAME_BYTES as u64).unwrap_or(NO_MAX);
        let max = match self.max {
            None => before.max,
            Some(u64::MAX) => NO_MAX,
            Some(max) if max < LEAST_MAX * FRAME_BYTES as u64 => {
                return Err(invalid(format!(
                    "group '{}': a maximum of {max} bytes; must be at least {}",
                    self.name,
                    LEAST_MAX * FRAME_BYTES as u64
                )));
            }
            Some(max) => frames(max),
        };
        if let Some(least) =
            least_for(member.account().nr_of_largest()).filter(|least| max < *least)
        {
            return Err(invalid(format!(
                "group '{}': a maximum of {} bytes; its files' pages take {} at the least",
                self.name,
                bytes(max),
                bytes(least)
            )));
        }
        let min = self.min.map_or(before.min, frames);
        if min > max {
            return Err(invalid(format!(
                "group '{}': a minimum of {} bytes and a maximum of {}",
                self.name,
                bytes(min),
                bytes(max)
            )));
        }
        let nr_frames = supply.pool().nr_frames();
        let others = accounts.nr_guaranteed_but(member.group());
        let most = nr_frames - nr_frames.div_ceil(PART_OF_NOBODY);
        if min > most.saturating_sub(others) {
            return Err(invalid(format!(
                "group '{}': a minimum of {} bytes; {} are guaranteed to other groups, and {} of the cache's {} can be",
                self.name,
                bytes(min),
                bytes(others),
                bytes(most),
                bytes(nr_frames)
            )));
        }
        Charger(supply)
            .set_limits(&member, GroupLimits { min, max })
            .map_err(|reason| {
                Error::new(ErrorKind::OutOfFrames, Op::Build).with_detail(reason.to_string())
            })?;
        Ok(Group(member))
    }
}
