//! Group commit and the oldest log sequence number, on the sets of pages that a sync walks.

use std::io;
use std::sync::Arc;

use loom::sync::atomic::{AtomicUsize, Ordering};
use pagewell_sync::{Mutex, lock};

use super::{explore, spawn};
use crate::base::error::{Error, Op};
use crate::dirty::commits::{Commits, Role, Sync as What};
use crate::dirty::oldest::Oldest;
use crate::dirty::page_set::{PageSets, Which};

struct Cut {
    commits: Commits,
    /// Writeback lock, which guards the number of syncs.
    writeback: Mutex<usize>,
    dirty: PageSets,
    durable: AtomicUsize,
    fails: Option<usize>,
}

impl Cut {
    fn new(fails: Option<usize>) -> Arc<Self> {
        Arc::new(Self {
            commits: Commits::default(),
            writeback: Mutex::new(0),
            dirty: PageSets::new(2).expect("small sets"),
            durable: AtomicUsize::new(0),
            fails,
        })
    }

    fn commit(&self, page: u64) -> Result<(), Error> {
        assert!(self.dirty.set(Which::Dirty).insert(page));
        let mut lead = match self.commits.join(What::Data) {
            Role::Lead(lead) => lead,
            Role::Follow(commit) => return commit.wait().expect("nobody unwinds"),
        };
        let mut nr_syncs = lock(&self.writeback);
        assert_eq!(lead.close(), What::Data);
        let result = self.sync(*nr_syncs);
        *nr_syncs += 1;
        drop(nr_syncs);
        lead.end(&result);
        result
    }

    fn sync(&self, nr: usize) -> Result<(), Error> {
        let dirty = self.dirty.set(Which::Dirty);
        let mut found = 0;
        let mut from = 0;
        while let Some(page) = dirty.next(from, 2) {
            from = page + 1;
            found |= 1 << page;
        }
        if self.fails == Some(nr) {
            return Err(Error::from_io(Op::Sync, io::Error::other("of the model")));
        }
        for page in (0..2).filter(|page| found >> page & 1 != 0) {
            assert!(dirty.remove(page));
        }
        // ORDERING: Relaxed; a loading thread has acquired a lock that this one releases later.
        self.durable.fetch_or(found, Ordering::Relaxed);
        Ok(())
    }

    fn is_durable(&self, page: u64) -> bool {
        self.durable.load(Ordering::Relaxed) >> page & 1 != 0
    }
}

/// A page is durable when its thread's call has returned, whichever thread led.
#[test]
fn loom_commit_vs_commit() {
    explore(3, || {
        let file = Cut::new(None);
        let other = spawn(&file, move |file| {
            file.commit(1).expect("a healthy storage");
            assert!(file.is_durable(1), "a commit has lost its page");
        });
        file.commit(0).expect("a healthy storage");
        assert!(file.is_durable(0), "a commit has lost its page");
        other.join().unwrap();
    });
}

/// The first sync fails. Its followers get the error; without one, the page is durable.
#[test]
fn loom_commit_fails_vs_follower() {
    explore(3, || {
        let file = Cut::new(Some(0));
        let commit = |file: &Cut, page| {
            let result = file.commit(page);
            // After an error, a later sync of the other thread may make the page durable.
            assert!(
                result.is_err() || file.is_durable(page),
                "a follower was not told"
            );
            result.is_err()
        };
        let other = spawn(&file, move |file| commit(&file, 1));
        let is_told = commit(&file, 0);
        assert!(other.join().unwrap() | is_told, "nobody was told");
    });
}

/// The LSN of a page that a sync makes durable is reported as long as the page is dirty.
#[test]
fn loom_lsn_vs_sync() {
    explore(3, || {
        let file = Arc::new((PageSets::new(1).expect("small sets"), Oldest::default()));
        let writer = spawn(&file, move |file| {
            let (sets, oldest) = &*file;
            assert!(sets.set(Which::Dirty).insert(0));
            oldest.note(5);
            oldest.note(9);
        });
        let (sets, oldest) = &*file;
        oldest.begin();
        let dirty = sets.set(Which::Dirty);
        if dirty.next(0, 1).is_some() {
            assert!(dirty.remove(0));
        }
        oldest.end_durable();
        writer.join().unwrap();
        let is_dirty = dirty.next(0, 1).is_some();
        assert!(
            !is_dirty || oldest.get() == Some(5),
            "the number of a dirty page is lost"
        );
    });
}
