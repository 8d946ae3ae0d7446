//! Sets of pages: consistency of their bits and counts.

use std::sync::Arc;

use loom::thread;

use super::explore;
use crate::dirty::page_set::{PageSets, Which};

/// Two claim holders change one word during a walk. Neither change undoes the other.
#[test]
fn loom_set_vs_set() {
    explore(3, || {
        let sets = Arc::new(PageSets::new(2).expect("small sets"));
        let set = sets.set(Which::Written);
        assert!(set.insert(0));
        let other = {
            let sets = Arc::clone(&sets);
            thread::spawn(move || assert!(sets.set(Which::Written).insert(1)))
        };
        assert!(set.remove(0));
        let seen = set.next(0, 2);
        assert!(seen.is_none() || seen == Some(1));
        other.join().unwrap();
        assert_eq!(set.next(0, 2), Some(1), "a page of the set was lost");
        assert!(set.remove(1));
        assert_eq!(set.next(0, 2), None);
    });
}

/// Each thread finds its page in the word, even if the other insertion is incomplete.
#[test]
fn loom_insert_vs_insert() {
    explore(3, || {
        let sets = Arc::new(PageSets::new(2).expect("small sets"));
        let other = {
            let sets = Arc::clone(&sets);
            thread::spawn(move || assert!(sets.set(Which::Dirty).insert(0)))
        };
        let set = sets.set(Which::Dirty);
        assert!(set.insert(1));
        assert!(set.next(0, 2).is_some(), "a page of the set is not found");
        other.join().unwrap();
    });
}

/// A page is removed from two sets. Two walks without a lock both find the other page.
#[test]
fn loom_insert_vs_remove() {
    explore(3, || {
        let sets = Arc::new(PageSets::new(2).expect("small sets"));
        let set = sets.set(Which::Dirty);
        assert!(set.insert(0) && set.insert(1) && sets.set(Which::Written).insert(0));
        let other = {
            let sets = Arc::clone(&sets);
            thread::spawn(move || {
                assert!(sets.set(Which::Dirty).remove(0));
                assert!(sets.set(Which::Written).remove(0));
            })
        };
        for _ in 0..2 {
            assert!(set.next(0, 2).is_some(), "a page of the set is not found");
            assert_eq!(set.next(1, 2), Some(1), "a page of the set is not found");
        }
        other.join().unwrap();
        assert_eq!(sets.set(Which::Written).next(0, 2), None);
    });
}
