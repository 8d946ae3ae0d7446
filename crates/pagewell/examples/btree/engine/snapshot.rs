//! Snapshots: the tree as it was, while others change it, by copies of what is changed.
//!
//! **A snapshot is a log sequence number.** Each page has the number of its last change. A page whose number is not larger than the snapshot's is as it was
//! then, and is read where it is. A writer that is about to change such a page puts a copy of it into the snapshot first.
//!
//! **Why a reader finds one of the two.** It looks at the page where it is. If the number there is too large, the page has been published after the copy was put in;
//! so the copy is there. The number and what the reader asks are of one moment, since they are of one look.
//!
//! **Locks.** That of the copies is taken while pages are locked, and nothing is done under it but to put in, or to get out. The list of snapshots changes while
//! the tree's gate is held alone, or by who drops a snapshot.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use pagewell::File;

use super::access::{Access, Question, ask_slice};
use super::descent::Reader;
use super::error::Error;

type Page = Arc<[u8]>;

/// What one snapshot needs that the tree does not have any more.
struct Kept {
    lsn: u64,
    /// Pages as they were, by their numbers.
    pages: Mutex<HashMap<u64, Page>>,
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Page>> {
        // A page is put in by one call.
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The snapshots that there are of a tree.
#[derive(Default)]
pub(super) struct Snapshots(RwLock<Vec<Arc<Kept>>>);

impl Snapshots {
    /// A snapshot of the tree in `data` as it is now, with all changes up to `lsn`; nobody is changing it.
    pub(super) fn add<'t>(&'t self, data: &'t File, lsn: u64) -> Snapshot<'t> {
        let kept = Arc::new(Kept {
            lsn,
            pages: Mutex::default(),
        });
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        all.push(Arc::clone(&kept));
        drop(all);
        Snapshot {
            data,
            all: self,
            kept,
        }
    }

    /// Keeps a page, which is locked and has these bytes and this number, for all snapshots that need it. To be called before it is changed.
    pub(super) fn keep(&self, page: u64, bytes: &[u8], lsn: u64) {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut copy: Option<Page> = None;
        for kept in all.iter().filter(|kept| lsn <= kept.lsn) {
            let copy = copy.get_or_insert_with(|| bytes.into());
            // It may be there already, if the change was given up then: as it is now.
            kept.lock().insert(page, Arc::clone(copy));
        }
    }
}

/// The tree as it was. What is changed meanwhile stays in memory as long as this exists: a page of 4 KiB for each that has changed.
pub(crate) struct Snapshot<'t> {
    data: &'t File,
    all: &'t Snapshots,
    kept: Arc<Kept>,
}

impl Snapshot<'_> {
    /// The tree as it was: gets and scans.
    pub(crate) fn reader(&self) -> Reader<AsItWas<'_>> {
        Reader(AsItWas(self))
    }

    /// How many pages have changed since.
    pub(crate) fn nr_kept(&self) -> usize {
        self.kept.lock().len()
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        let mut all = self.all.0.write().unwrap_or_else(PoisonError::into_inner);
        all.retain(|kept| !Arc::ptr_eq(kept, &self.kept));
    }
}

/// Pages as they were. They do not change, so there is nothing to check.
#[derive(Clone, Copy)]
pub(crate) struct AsItWas<'s>(&'s Snapshot<'s>);

impl Access for AsItWas<'_> {
    type Token = ();

    fn ask<Q: Question>(&self, page: u64, question: &mut Q) -> Result<(Q::Answer, ()), Error> {
        let Snapshot { data, kept, .. } = self.0;
        let answer = data.view(page, |v| {
            if v.u64_le(0)? > kept.lsn {
                return Ok(None);
            }
            question.ask(v).map(Some)
        })?;
        if let Some(answer) = answer {
            return Ok((answer, ()));
        }
        let copy = kept.lock().get(&page).cloned();
        let copy = copy.ok_or(Error::Malformed {
            page,
            what: "it is newer than the snapshot, which leads to it",
        })?;
        let (answer, _) = ask_slice(page, &copy, question)?;
        Ok((answer, ()))
    }

    fn is_unchanged(&self, (): &()) -> Result<bool, Error> {
        Ok(true)
    }
}
