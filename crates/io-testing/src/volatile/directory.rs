//! Names of the files: cached and durable names, and the changes between the two.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::rng::Rng;

pub(super) type Inode = u64;

/// Names that change atomically, each with the file that it names after the change, if any.
type Change = Vec<(String, Option<Inode>)>;

#[derive(Clone, Debug, Default)]
pub(super) struct Directory {
    cached: BTreeMap<String, Inode>,
    durable: BTreeMap<String, Inode>,
    changes: Vec<Change>,
}

impl Directory {
    pub(super) fn names(&self) -> impl Iterator<Item = (&str, Inode)> {
        self.cached.iter().map(|(name, inode)| (&**name, *inode))
    }

    pub(super) fn find(&self, name: &str) -> io::Result<Inode> {
        let found = self.cached.get(name).copied();
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn create(&mut self, name: &str, inode: Inode) -> io::Result<()> {
        if self.cached.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.change(vec![(name.to_owned(), Some(inode))]);
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let inode = self.find(from)?;
        if from != to {
            self.change(vec![(from.to_owned(), None), (to.to_owned(), Some(inode))]);
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, name: &str) -> io::Result<()> {
        self.find(name)?;
        self.change(vec![(name.to_owned(), None)]);
        Ok(())
    }

    pub(super) fn sync(&mut self) {
        self.durable.clone_from(&self.cached);
        self.changes.clear();
    }

    /// Returns a random result of a crash at this moment. A change since the last sync survives
    /// only with all earlier changes of the same names. Otherwise a file could lose its only
    /// durable name, which journaling file systems prevent.
    pub(super) fn survivors(&self, rng: &mut Rng) -> Self {
        let quarters = rng.below(5);
        let mut changed = BTreeSet::new();
        let mut kept = Vec::new();
        for change in self.changes.iter().rev() {
            let needed = change.iter().any(|(name, _)| changed.contains(name));
            if needed || rng.chance(quarters) {
                changed.extend(change.iter().map(|(name, _)| name));
                kept.push(change);
            }
        }
        let mut names = self.durable.clone();
        for change in kept.into_iter().rev() {
            apply(&mut names, change);
        }
        Self {
            cached: names.clone(),
            durable: names,
            changes: Vec::new(),
        }
    }

    fn change(&mut self, change: Change) {
        apply(&mut self.cached, &change);
        self.changes.push(change);
    }
}

fn apply(names: &mut BTreeMap<String, Inode>, change: &Change) {
    for (name, inode) in change {
        match inode {
            Some(inode) => names.insert(name.clone(), *inode),
            None => names.remove(name),
        };
    }
}
