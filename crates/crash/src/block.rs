//! Blocks that name their version, so that old, new, torn and foreign bytes are told apart.

use pagewell_testkit::rng::mix;

/// Bytes of a block, which divides every page.
pub const BLOCK: usize = 512;

/// The content found at a block's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// Nothing was written there.
    Zeros,
    /// The block, whole, in this version.
    Version(u64),
    /// Parts of several versions, or something else.
    Foreign,
}

/// Block number `nr` in this version: the version determines all bytes after it.
#[must_use]
pub fn block(nr: u64, version: u64) -> [u8; BLOCK] {
    let mut bytes = [0; BLOCK];
    let salt = mix(nr ^ mix(version));
    for (at, word) in (0..).zip(bytes.as_chunks_mut::<8>().0) {
        let value = if at == 0 { version } else { mix(salt ^ at) };
        *word = value.to_le_bytes();
    }
    bytes
}

impl Block {
    /// Interprets `bytes` as block number `nr`.
    #[must_use]
    pub fn of(nr: u64, bytes: &[u8]) -> Self {
        if bytes.len() == BLOCK && bytes.iter().all(|byte| *byte == 0) {
            return Self::Zeros;
        }
        match bytes.first_chunk() {
            Some(first) => {
                let version = u64::from_le_bytes(*first);
                if *bytes == block(nr, version) {
                    Self::Version(version)
                } else {
                    Self::Foreign
                }
            }
            None => Self::Foreign,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_apart_from_what_is_torn_misplaced_or_cut() {
        assert_eq!(Block::of(3, &block(3, 7)), Block::Version(7));
        assert_eq!(Block::of(3, &[0; BLOCK]), Block::Zeros);
        assert_eq!(Block::of(4, &block(3, 7)), Block::Foreign);
        assert_eq!(Block::of(3, &block(3, 7)[..BLOCK - 1]), Block::Foreign);
        assert_eq!(Block::of(3, &[]), Block::Foreign);
        // The first bytes of the versions differ; the bytes after them, to the end of the number, do not.
        for torn_at in [1, 8, 9, 100, 256, BLOCK - 8] {
            let mut torn = block(3, 7);
            torn[torn_at..].copy_from_slice(&block(3, 8)[torn_at..]);
            assert_eq!(Block::of(3, &torn), Block::Foreign, "torn at {torn_at}");
        }
    }
}
