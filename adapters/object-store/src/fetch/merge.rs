//! Merging of cache requests for missing pages into requests to the store.

use std::ops::Range;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) range: Range<u64>,
    /// Indices of the pieces, ordered by position.
    pub(crate) pieces: Vec<usize>,
}

/// Minimum ratio of needed to unneeded bytes in a request.
const SHARE: u64 = 16;

/// Merges nonempty `pieces` into requests. A piece joins the previous request if
///
/// - the gap before the piece has at most `gap` bytes,
/// - all gaps of the request together have at most 1/16 as many bytes as its pieces, and
/// - the request has at most `most` bytes.
pub(crate) fn runs(pieces: &[Range<u64>], gap: u64, most: u64) -> Vec<Run> {
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    order.sort_by_key(|nr| (pieces[*nr].start, pieces[*nr].end));
    let mut runs: Vec<Run> = Vec::new();
    let mut wasted = 0;
    let mut wanted = 0;
    for nr in order {
        let piece = &pieces[nr];
        let len = piece.end - piece.start;
        if let Some(run) = runs.last_mut() {
            let between = piece.start.saturating_sub(run.range.end);
            let end = run.range.end.max(piece.end);
            let is_near = between <= gap && (wasted + between) * SHARE <= wanted + len;
            if is_near && end - run.range.start <= most {
                run.range.end = end;
                run.pieces.push(nr);
                wasted += between;
                wanted += len;
                continue;
            }
        }
        runs.push(Run {
            range: piece.clone(),
            pieces: vec![nr],
        });
        wasted = 0;
        wanted = len;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn neighbours_are_merged_and_what_is_far_is_not() {
        let pieces = [100..200, 0..64, 64..100, 1000..1100, 210..900];
        let runs = runs(&pieces, 50, 2000);
        let expected = vec![
            Run {
                range: 0..900,
                pieces: vec![1, 2, 0, 4],
            },
            Run {
                range: 1000..1100,
                pieces: vec![3],
            },
        ];
        assert_eq!(runs, expected);
    }

    #[test]
    fn a_gap_is_read_only_if_little_beside_what_is_wanted() {
        assert_eq!(runs(&[0..16, 20..36], 100, 1000).len(), 2);
        assert_eq!(runs(&[0..160, 164..324], 100, 1000).len(), 1);
    }

    proptest! {
        #[test]
        fn each_piece_is_in_one_request_that_is_not_too_large(
            starts in prop::collection::vec((0_u64..5000, 1_u64..300), 0..40),
            gap in 0_u64..200,
            most in 1_u64..2000,
        ) {
            let pieces: Vec<_> = starts.iter().map(|(start, len)| *start..start + len).collect();
            let runs = runs(&pieces, gap, most);
            let mut seen = vec![0; pieces.len()];
            for run in &runs {
                for nr in &run.pieces {
                    seen[*nr] += 1;
                    let piece = &pieces[*nr];
                    prop_assert!(run.range.start <= piece.start && piece.end <= run.range.end);
                }
                prop_assert!(run.pieces.len() == 1 || run.range.end - run.range.start <= most);
            }
            prop_assert!(seen.iter().all(|nr| *nr == 1));
        }
    }
}
