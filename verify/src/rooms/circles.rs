//! Files that import each other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::tree::FileNr;

/// Files of which each leads to each other one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Circle {
    /// All of them.
    pub files: BTreeSet<FileNr>,
    /// A shortest way around: each file imports the next, and the last one the first.
    pub way: Vec<FileNr>,
}

/// Finds the circles, the largest first.
pub fn circles(arrows: impl Iterator<Item = (FileNr, FileNr)>) -> Vec<Circle> {
    let mut next = BTreeMap::<FileNr, BTreeSet<FileNr>>::new();
    for (from, to) in arrows {
        next.entry(from).or_default().insert(to);
    }
    let reached: BTreeMap<FileNr, BTreeSet<FileNr>> = next
        .keys()
        .map(|from| (*from, reach(&next, *from)))
        .collect();
    let leads = |from: FileNr, to: FileNr| reached.get(&from).is_some_and(|all| all.contains(&to));
    let mut found: Vec<Circle> = Vec::new();
    for &file in next.keys().filter(|file| leads(**file, **file)) {
        if found.iter().any(|circle| circle.files.contains(&file)) {
            continue;
        }
        let files: BTreeSet<FileNr> = reached[&file]
            .iter()
            .copied()
            .filter(|other| leads(*other, file))
            .collect();
        let ways = files.iter().filter_map(|start| way_around(&next, *start));
        let way = ways.min_by_key(Vec::len).unwrap_or_default();
        found.push(Circle { files, way });
    }
    found.sort_by_key(|circle| std::cmp::Reverse(circle.files.len()));
    found
}

/// The files that `from` leads to, by one arrow or more.
fn reach(next: &BTreeMap<FileNr, BTreeSet<FileNr>>, from: FileNr) -> BTreeSet<FileNr> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(file) = open.pop() {
        for &to in next.get(&file).into_iter().flatten() {
            if seen.insert(to) {
                open.push(to);
            }
        }
    }
    seen
}

/// A shortest way from `start` back to it.
fn way_around(next: &BTreeMap<FileNr, BTreeSet<FileNr>>, start: FileNr) -> Option<Vec<FileNr>> {
    let mut before = BTreeMap::new();
    let mut open = VecDeque::from([start]);
    while let Some(file) = open.pop_front() {
        for &to in next.get(&file).into_iter().flatten() {
            if to == start {
                let steps = std::iter::successors(Some(file), |file| before.get(file).copied());
                let mut way: Vec<FileNr> = steps.collect();
                way.reverse();
                return Some(way);
            }
            if let std::collections::btree_map::Entry::Vacant(entry) = before.entry(to) {
                entry.insert(file);
                open.push_back(to);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_has_all_files_and_a_shortest_way() {
        // 1 -> 2 -> 3 -> 1, with 2 -> 1; 4 leads into it; 5 <-> 6.
        let arrows = [(1, 2), (2, 3), (3, 1), (2, 1), (4, 1), (5, 6), (6, 5)];
        let found = circles(arrows.into_iter());
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].files, BTreeSet::from([1, 2, 3]));
        assert_eq!(found[0].way, [1, 2]);
        assert_eq!(found[1].files, BTreeSet::from([5, 6]));
        assert_eq!(circles([(1, 2), (2, 3), (1, 3)].into_iter()), []);
    }
}
