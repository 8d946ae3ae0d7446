//! Which pages are simulated, and what stands for the others.
//!
//! A page is in the sample if a hash of it is below a threshold; then all of its requests are. A cache for the sample is smaller
//! by the same rate (C. Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST 2015; for policies other than LRU "Cache
//! Modeling and Optimization using Miniature Simulations", ATC 2017). Few pages may have many requests, so a sample may
//! have more or fewer requests than its share. The misses are divided by the share: a hot page that is missing would have hit, nearly
//! always (the correction that the first of these calls SHARDS-adj).

/// A set of pages, chosen by their hashes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Sample {
    /// Hashes at and above this one are left out; None for no limit.
    below: Option<u64>,
}

impl Sample {
    pub(super) const ALL: Sample = Sample { below: None };

    /// So large a part of all pages; 1 and more is all of them.
    pub(super) fn of_rate(rate: f64) -> Sample {
        if rate >= 1.0 {
            return Sample::ALL;
        }
        // 2^64, as a number with a fraction; the product saturates.
        let below = rate * 18_446_744_073_709_551_616.0;
        Sample {
            below: Some((below as u64).max(1)),
        }
    }

    /// Half of these pages.
    pub(super) fn halved(self) -> Sample {
        let below = self.below.map_or(1 << 63, |below| below / 2);
        Sample {
            below: Some(below.max(1)),
        }
    }

    pub(super) fn is_all(self) -> bool {
        self.below.is_none()
    }

    pub(super) fn rate(self) -> f64 {
        self.below
            .map_or(1.0, |below| below as f64 / 18_446_744_073_709_551_616.0)
    }

    pub(super) fn has(self, hash: u64) -> bool {
        self.below.is_none_or(|below| hash < below)
    }
}

/// The hash of a page of a file: every bit depends on all bits of both (the mixing of SplitMix64).
pub(super) fn hash(file: u32, page: u64) -> u64 {
    let mix = |word: u64| {
        let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    };
    mix(mix(page.wrapping_add(0x9e37_79b9_7f4a_7c15)) ^ u64::from(file))
}
