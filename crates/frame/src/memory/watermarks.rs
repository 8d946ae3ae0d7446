//! How much of a pool is kept free.

/// How much of a pool is kept free, and when somebody is told that it runs out: numbers of frames on the
/// free lists, of the whole pool. Each node has a part like its part of the frames.
///
/// The default is 0 for all three: everything can be allocated, and nobody is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watermarks {
    /// Only [`Reserve::Use`](crate::Reserve::Use) may take the last `min` frames.
    pub min: usize,
    /// Whoever is registered by [`FramePool::set_low_memory`](crate::FramePool::set_low_memory) is told
    /// when fewer are free; and nodes with more are preferred. At least `min`.
    pub low: usize,
    /// Having told, do not tell again before as many are free, not counting what is in front caches. At least `low`, at most the whole pool.
    pub high: usize,
}

impl Watermarks {
    /// The part of a node that has `part` of the pool's `whole` frames, each rounded up.
    pub(crate) fn of_part(self, part: usize, whole: usize) -> Self {
        let of_part =
            |mark: usize| (mark as u128 * part as u128).div_ceil(whole.max(1) as u128) as usize;
        Self {
            min: of_part(self.min),
            low: of_part(self.low),
            high: of_part(self.high),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watermarks_of_parts_never_add_up_to_less() {
        let marks = Watermarks {
            min: 10,
            low: 20,
            high: 31,
        };
        let of_half = marks.of_part(50, 100);
        assert_eq!((of_half.min, of_half.low, of_half.high), (5, 10, 16));
        assert_eq!(marks.of_part(100, 100), marks);
        assert_eq!(Watermarks::default().of_part(3, 7), Watermarks::default());
    }
}
