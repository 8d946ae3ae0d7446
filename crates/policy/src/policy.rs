use crate::notes::Notes;
use crate::pages::Pages;
use crate::places::Places;
use crate::rules::Rules;
use crate::run::Run;

/// Eviction policy of a cache.
#[derive(Debug)]
pub struct Policy {
    places: Places,
    rules: Rules,
}

impl Policy {
    /// Maximum number of frames of a policy.
    pub const MAX_FRAMES: usize = (1 << 30) - 1;

    /// Creates the policy for the frames `0..nr_frames`, all without pages. Panics if `nr_frames`
    /// exceeds [`Policy::MAX_FRAMES`].
    #[must_use]
    pub fn new(nr_frames: usize) -> Self {
        assert!(nr_frames <= Self::MAX_FRAMES, "too many frames");
        Self {
            places: Places::new(nr_frames),
            rules: Rules::new(),
        }
    }

    /// Returns the memory that a policy of `nr_frames` frames and its [`Notes`] need, in bytes.
    #[must_use]
    pub const fn bytes(nr_frames: usize) -> usize {
        size_of::<Self>() + Places::bytes(nr_frames) + nr_frames * size_of::<u32>()
    }

    /// Evicts pages until `nr` frames, or more with the last page, are freed, or the pass reaches
    /// its bounds. Returns the number of freed frames.
    pub fn evict(&mut self, nr: usize, notes: &Notes, pages: &mut impl Pages) -> usize {
        let mut run = Run::new((&mut self.places, &mut self.rules), nr, notes, pages);
        run.sort_in(nr);
        run.look_at_others(nr);
        run.go(nr)
    }
}

#[cfg(test)]
impl Policy {
    pub(crate) const fn places(&self) -> &Places {
        &self.places
    }
}
