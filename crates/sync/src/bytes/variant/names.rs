//! Names and requirements of the variants, and the reason for a choice.

use std::fmt;

/// Implementation of copies of more than 64 bytes. Shorter copies are the same for all variants.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Variant {
    /// Relaxed atomics, a word at a time.
    Portable,
    /// Moves of 16 bytes.
    Sse2,
    /// Moves of 32 bytes.
    Avx,
    /// Moves of 64 bytes.
    Avx512,
    /// `rep movsb` for 2 KiB and more, moves of 32 or 16 bytes for less.
    RepMovsb,
}

impl Variant {
    /// All variants, including those that this build or processor does not support.
    pub const ALL: [Variant; 5] = [
        Variant::Portable,
        Variant::Sse2,
        Variant::Avx,
        Variant::Avx512,
        Variant::RepMovsb,
    ];

    /// Returns the variant's name, for output that programs parse.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Variant::Portable => "portable",
            Variant::Sse2 => "sse2",
            Variant::Avx => "avx",
            Variant::Avx512 => "avx512",
            Variant::RepMovsb => "rep-movsb",
        }
    }

    /// Fails if this build lacks the variant, or if the processor or the system lacks a feature
    /// that the variant requires.
    pub fn check(self) -> Result<(), Unusable> {
        let is_portable = self == Variant::Portable;
        if is_portable == HAS_ASSEMBLY {
            return Err(Unusable {
                variant: self,
                reason: if is_portable {
                    "this build uses assembly instead"
                } else {
                    "this build has no x86-64 assembly"
                },
            });
        }
        match self.lacks() {
            None => Ok(()),
            Some(reason) => Err(Unusable {
                variant: self,
                reason,
            }),
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn lacks(self) -> Option<&'static str> {
        match self {
            Variant::Avx if !std::is_x86_feature_detected!("avx") => {
                Some("AVX is not supported by the processor or the system")
            }
            Variant::Avx512 if !std::is_x86_feature_detected!("avx512f") => {
                Some("AVX-512 is not supported by the processor or the system")
            }
            _ => None,
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn lacks(self) -> Option<&'static str> {
        None
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

const HAS_ASSEMBLY: bool = cfg!(all(
    target_arch = "x86_64",
    not(any(loom, miri, pagewell_tsan))
));

/// Error of a variant that this build, processor or operating system does not support.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Unusable {
    variant: Variant,
    reason: &'static str,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cannot copy with variant {}: {}",
            self.variant, self.reason
        )
    }
}

impl std::error::Error for Unusable {}

/// The variant in use, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The variant.
    pub variant: Variant,
    /// Reason for the choice.
    pub reason: Reason,
}

/// Reason for using a variant.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// This build has no other variant.
    Only,
    /// The variants were measured in this process.
    Measured(Timings),
    /// The program called [`force`](super::force).
    Forced,
}

/// Shortest measured time of a 4 KiB copy in the first-level cache, for each usable variant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Timings {
    nanoseconds: [Option<f64>; Variant::ALL.len()],
}

impl Timings {
    /// Returns the time of `variant` in nanoseconds, or `None` if it was not usable.
    #[must_use]
    pub fn of(&self, variant: Variant) -> Option<f64> {
        self.nanoseconds[variant as usize]
    }

    /// Records a measurement of `variant`. The shortest is kept.
    pub fn note(&mut self, variant: Variant, nanoseconds: f64) {
        let least = &mut self.nanoseconds[variant as usize];
        *least = Some(least.map_or(nanoseconds, |least| least.min(nanoseconds)));
    }

    /// Iterates over the measured variants and their times.
    pub fn iter(&self) -> impl Iterator<Item = (Variant, f64)> + '_ {
        let all = Variant::ALL.into_iter();
        all.filter_map(|variant| Some((variant, self.of(variant)?)))
    }

    /// Returns the fastest of the variants that are faster than the default by [`MARGIN`], which
    /// exceeds the measurement error, or else the default: AVX if it was measured, otherwise SSE2.
    #[must_use]
    pub fn choice(&self) -> Variant {
        let (default, by_default) = [Variant::Avx, Variant::Sse2]
            .into_iter()
            .find_map(|variant| Some((variant, self.of(variant)?)))
            .unwrap_or((Variant::Sse2, f64::INFINITY));
        self.iter()
            .filter(|&(_, nanoseconds)| nanoseconds < by_default * (1.0 - MARGIN))
            .min_by(|(_, a), (_, b)| a.total_cmp(b))
            .map_or(default, |(variant, _)| variant)
    }
}

/// Fraction of the default's time by which a variant must be faster to be chosen instead.
pub const MARGIN: f64 = 0.05;

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Only => f.write_str("only variant in this build"),
            Reason::Forced => f.write_str("forced by the program"),
            Reason::Measured(timings) => {
                f.write_str("measured, ns for 4 KiB: ")?;
                for (i, (variant, nanoseconds)) in timings.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{variant} {nanoseconds:.1}")?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timings(measured: &[(Variant, f64)]) -> Timings {
        let mut timings = Timings::default();
        for &(variant, nanoseconds) in measured {
            timings.note(variant, nanoseconds);
        }
        timings
    }

    #[test]
    fn the_fastest_is_chosen_if_it_is_faster_than_the_default_by_the_margin() {
        use Variant::{Avx, Avx512, RepMovsb, Sse2};
        let choice = |measured: &[_]| timings(measured).choice();
        // As measured on Zen 5, and as expected from the store width of Zen 4.
        let zen_5 = [(Sse2, 52.0), (Avx, 29.0), (Avx512, 20.0), (RepMovsb, 33.0)];
        assert_eq!(choice(&zen_5), Avx512);
        let zen_4 = [(Sse2, 80.0), (Avx, 40.0), (Avx512, 39.0), (RepMovsb, 41.0)];
        assert_eq!(choice(&zen_4), Avx);
        assert_eq!(
            choice(&[(Sse2, 80.0), (Avx, 40.0), (RepMovsb, 37.0)]),
            RepMovsb
        );
        assert_eq!(choice(&[(Sse2, 50.0), (RepMovsb, 50.0)]), Sse2);
        assert_eq!(choice(&[(Sse2, 30.0), (Avx, 40.0)]), Sse2);
    }

    #[test]
    fn of_several_measurements_the_least_counts() {
        let timings = timings(&[
            (Variant::Avx, 3.0),
            (Variant::Avx, 2.0),
            (Variant::Avx, 9.0),
        ]);
        assert_eq!(timings.of(Variant::Avx), Some(2.0));
        assert_eq!(timings.of(Variant::Sse2), None);
    }

    #[test]
    fn a_variant_is_in_the_place_of_its_number() {
        for (i, variant) in Variant::ALL.into_iter().enumerate() {
            assert_eq!(variant as usize, i);
        }
    }
}
