//! Requests made up by rule: the same seed gives the same requests.

use std::fmt;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Workload {
    /// Pages by Zipf's law with exponent 0.99.
    Zipf99,
    /// Pages by Zipf's law with exponent 0.7.
    Zipf70,
    /// As `Zipf99`; after each [`BETWEEN_SCANS`] requests, [`SCAN`] neighbouring pages are read once.
    ZipfScan,
    /// Twice as many pages as the cache has, one after the other, again and again.
    Loop,
    /// A root, an inner page and a leaf for each lookup; leaves by Zipf's law with exponent 0.7, 512 for each inner page.
    Tree,
}

/// How many requests of [`Workload::ZipfScan`] there are between scans.
pub const BETWEEN_SCANS: usize = 16 << 10;

/// How many pages a scan of [`Workload::ZipfScan`] reads.
pub const SCAN: usize = 8 << 10;

/// How many leaves an inner page of [`Workload::Tree`] has.
const FANOUT: u32 = 512;

impl Workload {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Zipf99,
        Self::Zipf70,
        Self::ZipfScan,
        Self::Loop,
        Self::Tree,
    ];

    /// Its name, as users write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zipf99 => "zipf-0.99",
            Self::Zipf70 => "zipf-0.7",
            Self::ZipfScan => "zipf-scan",
            Self::Loop => "loop",
            Self::Tree => "tree",
        }
    }

    /// `nr` requests of `nr_pages` pages, for a cache of `nr_frames`. A tree has a root and inner pages more.
    #[must_use]
    pub fn requests(self, nr: usize, nr_pages: u32, nr_frames: usize, seed: u64) -> Vec<u32> {
        let nr_pages = nr_pages.max(1);
        let mut rng = Rng(seed);
        match self {
            Self::Zipf99 => {
                let zipf = Zipf::new(nr_pages, 0.99);
                (0..nr).map(|_| zipf.page(&mut rng)).collect()
            }
            Self::Zipf70 => {
                let zipf = Zipf::new(nr_pages, 0.7);
                (0..nr).map(|_| zipf.page(&mut rng)).collect()
            }
            Self::ZipfScan => {
                let zipf = Zipf::new(nr_pages, 0.99);
                let mut scanned = 0..;
                let request = |at: usize| match at % (BETWEEN_SCANS + SCAN) {
                    0..BETWEEN_SCANS => zipf.page(&mut rng),
                    _ => scanned
                        .next()
                        .map_or(0, |page: u64| (page % u64::from(nr_pages)) as u32),
                };
                (0..nr).map(request).collect()
            }
            Self::Loop => {
                let around = (2 * nr_frames).max(1);
                (0..nr).map(|at| (at % around) as u32).collect()
            }
            Self::Tree => {
                let zipf = Zipf::new(nr_pages, 0.7);
                let nr_inner = nr_pages.div_ceil(FANOUT);
                let lookups = std::iter::repeat_with(|| zipf.page(&mut rng));
                let pages = lookups.flat_map(|leaf| [0, 1 + leaf / FANOUT, 1 + nr_inner + leaf]);
                pages.take(nr).collect()
            }
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
#[derive(Clone, Debug)]
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ x >> 31
    }

    /// At least 0, less than 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Pages of which the `n`th most popular is asked for `1 / n^exponent` times as often as the first. Popular pages are spread over all.
#[derive(Debug)]
struct Zipf {
    /// For each rank, the weight of it and of those before.
    sums: Vec<f64>,
    /// An odd number, the distance of successive ranks in pages; with no factor in common with the number of pages.
    stride: u64,
}

impl Zipf {
    fn new(nr_pages: u32, exponent: f64) -> Self {
        let mut sum = 0.0;
        let sums = (1..=nr_pages).map(|rank| {
            sum += f64::from(rank).powf(-exponent);
            sum
        });
        let near = (u64::from(nr_pages) * 618 / 1000) | 1;
        let stride = (near..).find(|&stride| gcd(stride, u64::from(nr_pages)) == 1);
        Self {
            sums: sums.collect(),
            stride: stride.unwrap_or(1),
        }
    }

    fn page(&self, rng: &mut Rng) -> u32 {
        let all = self.sums.last().copied().unwrap_or(0.0);
        let wanted = rng.unit() * all;
        let rank = self.sums.partition_point(|&sum| sum <= wanted);
        let rank = rank.min(self.sums.len() - 1);
        (rank as u64 * self.stride % self.sums.len() as u64) as u32
    }
}

const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
