//! The set of pages: its bits for pages against its bits for words.

use std::sync::Arc;

use loom::thread;

use super::explore;
use crate::dirty::page_set::PageSet;

/// A page is put into a word that was empty while another thread goes over the set, and clears the bit above: a later
/// walk over the set finds the page. (Not in the first word, which is read without the bit above.)
#[test]
fn loom_set_vs_clear() {
    explore(3, || {
        let set = Arc::new(PageSet::new(128).expect("a small set"));
        // The word is empty, and its bit above is still set.
        assert!(set.insert(64) && set.remove(64));
        let other = {
            let set = Arc::clone(&set);
            thread::spawn(move || assert!(set.insert(65)))
        };
        let seen = set.next(0, 128);
        assert!(seen.is_none() || seen == Some(65));
        other.join().unwrap();
        assert_eq!(set.next(0, 128), Some(65), "a page of the set was lost");
    });
}

/// Two pages of one word are put in and taken out, each by the holder of its claim, while a third thread goes over the
/// set: neither change undoes the other.
#[test]
fn loom_set_vs_set() {
    explore(3, || {
        let set = Arc::new(PageSet::new(2).expect("a small set"));
        assert!(set.insert(0));
        let other = {
            let set = Arc::clone(&set);
            thread::spawn(move || assert!(set.insert(1)))
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

/// Two pages are put into one word that was empty: each thread finds the page that it has put in, even if the other is not done.
#[test]
fn loom_insert_vs_insert() {
    explore(3, || {
        let set = Arc::new(PageSet::new(128).expect("a small set"));
        let other = {
            let set = Arc::clone(&set);
            thread::spawn(move || assert!(set.insert(64)))
        };
        assert!(set.insert(65));
        assert!(set.next(0, 128).is_some(), "a page of the set is not found");
        other.join().unwrap();
    });
}
