//! Which engines a case has, and which of them are compared.

use super::{alloc, cold, contig, fork, migrate, pin, read, refcount, space, tree, write};
use crate::bench::plan::{Bench, Case};

/// The engines of a case, in the order of their lanes. The last ones may not have been there to be measured.
pub(in crate::bench) fn engines(case: Case) -> &'static [&'static str] {
    match case.bench() {
        Bench::Refcount => &refcount::ENGINES,
        Bench::Pin => &pin::ENGINES,
        Bench::Read if case == Case::MissBuffered => &read::MISS_ENGINES,
        Bench::Read => &read::ENGINES,
        Bench::Write if case == Case::Writeback => &write::WRITEBACK_ENGINES,
        Bench::Write if case == Case::WriteBesideWaiters => &write::WAITERS_ENGINES,
        Bench::Write => &write::ENGINES,
        Bench::Contig if case == Case::Fragmentation => &contig::STRATEGIES,
        Bench::Contig => &contig::ENGINES,
        Bench::Alloc => &alloc::ENGINES,
        Bench::Space => &space::ENGINES,
        Bench::Fork => &fork::ENGINES,
        Bench::Migrate if case == Case::SecondWalk => &migrate::WALKERS,
        Bench::Migrate => &migrate::ENGINES,
        Bench::Tree if case.inserts() => tree::INSERT_ENGINES,
        Bench::Tree => tree::ENGINES,
        Bench::Cold => cold::engines(case),
    }
}

/// What is compared: (A, B) says how many times faster A is than B.
pub(in crate::bench) fn ratios(case: Case) -> &'static [(&'static str, &'static str)] {
    match case.bench() {
        Bench::Refcount => &refcount::RATIOS,
        Bench::Pin => &pin::RATIOS,
        Bench::Read if case == Case::MissBuffered => &read::MISS_RATIOS,
        Bench::Read => &read::RATIOS,
        Bench::Write if case == Case::Writeback => &write::WRITEBACK_RATIOS,
        Bench::Write if case == Case::WriteBesideWaiters => &write::WAITERS_RATIOS,
        Bench::Write => &write::RATIOS,
        // Shares are no speeds.
        Bench::Contig if case == Case::Fragmentation => &[],
        Bench::Contig => &contig::RATIOS,
        Bench::Alloc => &alloc::RATIOS,
        Bench::Space => &space::RATIOS,
        Bench::Fork => &fork::RATIOS,
        Bench::Migrate if case == Case::SecondWalk => &[],
        Bench::Migrate => &migrate::RATIOS,
        Bench::Tree if case.inserts() => tree::INSERT_RATIOS,
        Bench::Tree => tree::RATIOS,
        Bench::Cold => cold::ratios(case),
    }
}

/// One line for each engine, for people.
pub(in crate::bench) fn legend(bench: Bench) -> &'static [(&'static str, &'static str)] {
    match bench {
        Bench::Refcount => &refcount::LEGEND,
        Bench::Pin => &pin::LEGEND,
        Bench::Read => &read::LEGEND,
        Bench::Write => &write::LEGEND,
        Bench::Contig => &contig::LEGEND,
        Bench::Alloc => &alloc::LEGEND,
        Bench::Space => &space::LEGEND,
        Bench::Fork => &fork::LEGEND,
        Bench::Migrate => &migrate::LEGEND,
        Bench::Tree => tree::LEGEND,
        Bench::Cold => &cold::LEGEND,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ratio_is_between_engines_that_exist() {
        for case in Bench::ALL.iter().flat_map(|bench| bench.cases()) {
            for (a, b) in ratios(*case) {
                assert!(engines(*case).contains(a) && engines(*case).contains(b));
            }
        }
    }
}
