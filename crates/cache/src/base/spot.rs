//! The second word of the owner of a frame's record: where in its owner the content belongs, and the group that it is charged to.

use pagewell_policy::Group;

/// For a page, the position of its slot in its leaf; for a leaf, its number in its file. With the group of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot(u64);

/// The group is in the bits from here on.
const GROUP_SHIFT: u32 = 56;

impl Spot {
    /// Positions are below 2^56: a file has fewer pages.
    pub(crate) const fn new(position: usize, group: Group) -> Self {
        Self(position as u64 | (group.index() as u64) << GROUP_SHIFT)
    }

    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    pub(crate) const fn position(self) -> usize {
        (self.0 & ((1 << GROUP_SHIFT) - 1)) as usize
    }

    /// The group; none, if a record that is a hint says nonsense.
    pub(crate) const fn group(self) -> Group {
        match Group::new((self.0 >> GROUP_SHIFT) as usize) {
            Some(group) => group,
            None => Group::NONE,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn both_parts_come_back() {
        for position in [0, 1, 511, (1 << 56) - 1] {
            for group in (0..Group::MOST).filter_map(Group::new) {
                let spot = Spot::from_bits(Spot::new(position, group).bits());
                assert_eq!((spot.position(), spot.group()), (position, group));
            }
        }
        assert_eq!(Spot::from_bits(u64::MAX).group(), Group::NONE);
    }
}
