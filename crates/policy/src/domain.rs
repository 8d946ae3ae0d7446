//! Domains: groups whose pages have one order.

use crate::pages::Quota;
use crate::rules::Rules;

/// The groups whose pages have one order: a group that is apart, or, as [`Group::NONE`](crate::Group::NONE), all others.
#[derive(Debug)]
pub(crate) struct Domain {
    pub(crate) rules: Rules,
    /// How many of its pages runs for all have looked at, relative to its size. The domain with the least is next.
    pub(crate) looked: u64,
    /// What the group has, as far as the run knows.
    pub(crate) quota: Quota,
    /// What it had when a page of it was evicted last.
    pub(crate) level: u64,
}

impl Domain {
    pub(crate) const fn new() -> Self {
        Self {
            rules: Rules::new(),
            looked: 0,
            quota: Quota {
                nr_frames: 0,
                nr_spare: u64::MAX,
                is_growing: false,
            },
            level: 0,
        }
    }

    /// Notes what the group has. If it has clearly more than when a page of it was evicted last, it is filling up.
    pub(crate) const fn set_quota(&mut self, quota: Quota) {
        self.quota = quota;
        self.quota.is_growing =
            quota.is_growing && quota.nr_frames > self.level + self.level / 64 + 8;
        if self.quota.is_growing {
            self.rules.begin_to_fill();
        }
    }
}
