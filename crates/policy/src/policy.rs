//! The policy of a cache: what lasts from run to run, and which runs there are.

use crate::domain::Domain;
use crate::notes::Notes;
use crate::pages::{Pages, Scope};
use crate::places::Places;
use crate::rules::Rules;
use crate::run::{GRACE, Run};
use crate::words::Group;

/// The policy of a cache of so many frames.
#[derive(Debug)]
pub struct Policy {
    places: Places,
    /// For each group.
    domains: Vec<Domain>,
    /// The same number of the domain that was looked at last.
    last_looked: u64,
}

impl Policy {
    /// The most frames that a policy may have.
    pub const MAX_FRAMES: usize = (1 << 30) - 1;

    /// The policy for frames `0..nr_frames`, none of which has a page.
    ///
    /// # Panics
    ///
    /// When there are more than [`Policy::MAX_FRAMES`].
    #[must_use]
    pub fn new(nr_frames: usize) -> Self {
        assert!(nr_frames <= Self::MAX_FRAMES, "too many frames");
        Self {
            places: Places::new(nr_frames),
            domains: vec![Domain::new()],
            last_looked: 0,
        }
    }

    /// How much memory the policy takes, with its [`Notes`].
    #[must_use]
    pub const fn bytes(nr_frames: usize) -> usize {
        size_of::<Self>() + Places::bytes(nr_frames) + nr_frames * size_of::<u32>()
    }

    /// How much more it takes when a group is apart, or has been.
    #[must_use]
    pub const fn bytes_of_apart(nr_frames: usize) -> usize {
        Places::bytes_of_apart(nr_frames)
    }

    /// From now on pages may be of `group`.
    pub fn add_group(&mut self, group: Group) {
        self.places.grow(group.index() + 1);
        self.domains
            .resize_with(self.places.nr_groups(), Domain::new);
    }

    /// Whether a group is apart: whether runs are made for it alone. [`Group::NONE`] never is.
    pub fn set_apart(&mut self, group: Group, is_apart: bool) {
        self.add_group(group);
        if self.places.is_apart(group) != is_apart {
            self.places.set_apart(group, is_apart);
            self.domains[group.index()].rules = Rules::new();
        }
    }

    /// Evicts pages of up to `nr` frames, or a few more if the last one is large. Returns how many frames.
    pub fn evict(
        &mut self,
        nr: usize,
        scope: Scope,
        notes: &Notes,
        pages: &mut impl Pages,
    ) -> usize {
        match scope {
            Scope::All => {
                let mut run = self.run(nr, notes, pages);
                run.sort_in(nr);
                run.look_at_others(nr);
                run.go(nr, None)
            }
            Scope::Only(group) if self.places.is_apart(group) => {
                let mut run = self.run(nr, notes, pages);
                run.sort_in_of(group, nr, GRACE);
                run.look_at_limbo(nr);
                run.go(nr, Some(group))
            }
            Scope::Only(_) => 0,
        }
    }

    /// Sorts in what has arrived in these frames. It is of a group that is apart, whose runs do not look for it among all that is in limbo.
    pub fn sort_in(&mut self, group: Group, frames: &[u32], notes: &Notes, pages: &mut impl Pages) {
        if self.places.is_apart(group) {
            let mut run = self.run(frames.len(), notes, pages);
            for &frame in frames {
                run.sort_in_one(frame);
            }
        }
    }

    fn run<'r, P: Pages>(
        &'r mut self,
        nr: usize,
        notes: &'r Notes,
        pages: &'r mut P,
    ) -> Run<'r, P> {
        for (nr, domain) in self.domains.iter_mut().enumerate().skip(1) {
            if let Some(group) = Group::new(nr) {
                domain.set_quota(pages.quota(group));
            }
        }
        let last_looked = &mut self.last_looked;
        let state = (&mut self.places, &mut self.domains[..], last_looked);
        Run::new(state, nr, notes, pages)
    }
}

#[cfg(test)]
impl Policy {
    pub(crate) const fn places(&self) -> &Places {
        &self.places
    }
}
