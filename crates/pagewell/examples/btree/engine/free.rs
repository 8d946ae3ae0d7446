//! Which pages are free.
//!
//! That is not written down: opening goes through the inner nodes, and what none of them names is free. So a page that was added for a split which then
//! failed is free after that too. It costs a look at each inner node, a hundredth of the file or less.

use std::collections::HashSet;

use pagewell::File;

use super::descent::ROOT;
use super::node::{self, PAGE};

/// The pages that no node names. If something in the tree is not what it must be, none: who looks for a key there finds out.
pub(super) fn find_free(data: &File) -> Vec<u64> {
    let nr_pages = data.size() / PAGE as u64;
    let mut named = HashSet::from([ROOT]);
    let mut inner = vec![(ROOT, None)];
    while let Some((page, height)) = inner.pop() {
        let looked = data.view(page, |v| {
            let head = node::head(v)?;
            let mut children = Vec::new();
            if head.height > 0 {
                for nr in 0..head.count {
                    children.push(node::child(v, nr)?);
                }
            }
            Ok((head.height, children))
        });
        let Ok((found, children)) = looked else {
            return Vec::new();
        };
        if height.is_some_and(|height| height != found) {
            return Vec::new();
        }
        for child in children {
            if child >= nr_pages || !named.insert(child) {
                return Vec::new();
            }
            // Leaves name nothing, and are most of the file.
            if found > 1 {
                inner.push((child, Some(found - 1)));
            }
        }
    }
    (0..nr_pages).filter(|page| !named.contains(page)).collect()
}
