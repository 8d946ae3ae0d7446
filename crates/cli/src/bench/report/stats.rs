//! Medians, with the least and the greatest value beside them.

/// What is kept of the values of all rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::bench) struct Spread {
    pub(in crate::bench) median: f64,
    pub(in crate::bench) min: f64,
    pub(in crate::bench) max: f64,
}

impl Spread {
    /// The spread of one value a round; none of no rounds.
    pub(in crate::bench) fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = match sorted.len() {
            0 => return None,
            odd if odd % 2 == 1 => sorted[middle],
            _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
        };
        Some(Spread {
            median,
            min: sorted[0],
            max: sorted[sorted.len() - 1],
        })
    }

    /// How many times greater `a` is than `b`, compared round by round: both were
    /// measured in the same round, so that what disturbed one disturbed the other.
    pub(in crate::bench) fn of_ratio(a: &[f64], b: &[f64]) -> Option<Spread> {
        Spread::of(a.iter().zip(b).map(|(a, b)| a / b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(median: f64, min: f64, max: f64) -> Option<Spread> {
        Some(Spread { median, min, max })
    }

    #[test]
    fn the_median_is_the_middle_value_or_the_mean_of_the_two() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([3.0]), spread(3.0, 3.0, 3.0));
        assert_eq!(Spread::of([9.0, 1.0, 2.0]), spread(2.0, 1.0, 9.0));
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 9.0]), spread(3.0, 1.0, 9.0));
    }

    #[test]
    fn ratios_pair_values_of_the_same_round() {
        // The second round ran at half the speed; the ratio does not see it.
        let a = [100.0, 50.0, 100.0];
        let b = [50.0, 25.0, 40.0];
        assert_eq!(Spread::of_ratio(&a, &b), spread(2.0, 2.0, 2.5));
    }
}
