//! The tree: opening and recovery, inserts, splits, checkpoints.
//!
//! **Writers.** A writer
//! 1. descends by views, as readers do;
//! 2. locks the pages to change, from the top down and from left to right, and validates their
//!    tokens;
//! 3. changes the copies that the guards hold;
//! 4. appends a record to the log; until here every failure is undone by cancelling the guards;
//! 5. publishes the pages.
//!
//! The write-ahead callback of the data file makes the log durable before a page is written, or
//! refuses the page.
//!
//! **Checkpoints.** Writers hold `gate` shared during steps 2 to 5. A checkpoint makes most pages
//! durable without the gate, then takes it exclusively, so that the pages contain all that the log
//! does; makes the remaining pages durable; and restarts the log. Readers never wait.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use pagewell::{Cache, File, OpenOptions, PageGuardMut, Token, Torn};

use super::access::{Bytes, Views};
use super::descent::{Descent, OnInner, ROOT, Reader, Step, Visitor, descend};
use super::error::Error;
use super::log::Log;
use super::node::{self, Before, Head, MAX_ENTRY, MAX_KEY, PAGE, Place};
use super::record::{record_images, record_insert, redo};

/// Options of a tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Length of the log in bytes from which on an insert first makes a checkpoint.
    pub(crate) checkpoint_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            checkpoint_bytes: 64 << 20,
        }
    }
}

/// A tree, open for writing. Any number of threads may use it.
pub(crate) struct Tree {
    data: File,
    log: Arc<Log>,
    gate: RwLock<()>,
    options: Options,
}

/// Finds the leaf for an entry with these lengths, and answers whether the entry fits. Stops at an
/// inner node that may be full.
struct FindRoom {
    key_len: usize,
    value_len: usize,
}

impl Visitor for FindRoom {
    type Answer = bool;

    fn on_inner<B: Bytes + ?Sized>(&mut self, node: &B, head: Head, _: usize) -> OnInner {
        Ok(match node::is_full(node, head)? {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    }

    fn on_leaf<B: Bytes + ?Sized>(
        &mut self,
        leaf: &B,
        head: Head,
        place: Place,
    ) -> Result<bool, Torn> {
        node::has_room(leaf, head, place, (self.key_len, self.value_len))
    }
}

impl Tree {
    /// Opens the tree in two files, which are created if they do not exist.
    pub(crate) fn open(
        cache: &Cache,
        data: &Path,
        log: &Path,
        options: Options,
    ) -> Result<Tree, Error> {
        let create = OpenOptions::new().create().page_size(PAGE);
        let log = cache.open_with(log, &create)?;
        Tree::open_files(log, options, |write_ahead| {
            cache.open_with(data, &write_ahead(create.clone()))
        })
    }

    /// Opens the tree in any files of a cache with pages of 4 KiB. `open` opens the data file
    /// for writing, with options that it passes through its argument, which adds the write-ahead
    /// callback.
    pub(crate) fn open_files(
        log: File,
        options: Options,
        open: impl FnOnce(&dyn Fn(OpenOptions) -> OpenOptions) -> Result<File, pagewell::Error>,
    ) -> Result<Tree, Error> {
        let (log, is_new) = Log::open(log)?;
        let log = Arc::new(log);
        let data = open(&|options: OpenOptions| {
            let log = Arc::clone(&log);
            options.before_write(move |_page, lsn| {
                log.sync_to(lsn).map_err(|error| match error {
                    Error::Cache(error) => error.into(),
                    error => std::io::Error::other(error.to_string()),
                })
            })
        })?;
        let tree = Tree {
            data,
            log,
            gate: RwLock::new(()),
            options,
        };
        tree.check_files(is_new)?;
        tree.recover()?;
        Ok(tree)
    }

    /// Checks, before anything is changed, that the data file is the one of this log.
    fn check_files(&self, log_is_new: bool) -> Result<(), Error> {
        let size = self.data.size();
        let id = match size >= PAGE as u64 {
            true => self.data.view(ROOT, |v| node::tree_id(v))?,
            false => 0,
        };
        let why = if self.data.page_size() != PAGE {
            "the pages of the data file are not of 4 KiB"
        } else if log_is_new && size != 0 {
            "the data file is not empty, and the log is missing"
        } else if self.log.base() != 0 && size == 0 {
            "the data file is empty, and the log is not"
        } else if id != self.log.tree_id() && (id, self.log.base()) != (0, 0) {
            "the log is not the one of the data file"
        } else {
            return Ok(());
        };
        Err(Error::NotATree(why))
    }

    /// Applies the records of the log, creates the root of a new tree, and makes a checkpoint.
    fn recover(&self) -> Result<(), Error> {
        self.log.replay(|lsn, body| redo(&self.data, lsn, body))?;
        // A partial page at the end was being appended, and no record refers to it: redo would have
        // completed it.
        let size = self.data.size().next_multiple_of(PAGE as u64);
        if size != self.data.size() {
            self.data.set_size(size)?;
        }
        if self.log.end() == 0 {
            self.create_root()?;
        }
        let lsn = self.data.view(ROOT, |v| {
            node::head(v)?;
            node::lsn(v)
        })?;
        if lsn > self.log.end() {
            return Err(Error::NotATree(
                "the log ends before the last change of the root",
            ));
        }
        self.checkpoint()
    }

    /// Creates the root. The log is empty.
    fn create_root(&self) -> Result<(), Error> {
        if self.data.size() == 0 {
            self.data.append(&[0; PAGE])?;
        }
        let mut root = Locked(vec![(ROOT, self.data.pin_mut(ROOT)?)]);
        let (_, guard) = &mut root.0[0];
        if self.data.size() > PAGE as u64 || guard.iter().any(|byte| *byte != 0) {
            return Err(Error::NotATree(
                "the data file is not empty, and the log is",
            ));
        }
        node::init(guard, 0)
            .and_then(|()| node::set_tree_id(guard, self.log.tree_id()))
            .map_err(Error::damaged(ROOT))?;
        let lsn = record_images(&self.log, &root.images())?;
        root.publish(lsn, [0]);
        Ok(())
    }

    /// Returns a reader by views.
    pub(crate) fn reader(&self) -> Reader<Views<'_>> {
        Reader(Views(&self.data))
    }

    /// Returns the data file, for other methods of reading.
    pub(crate) fn data(&self) -> &File {
        &self.data
    }

    /// Inserts an entry, or replaces the value of its key. Returns whether the key was in the tree.
    ///
    /// The change is atomic, and durable after [`sync`](Self::sync).
    pub(crate) fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        check_len("a key", key.len(), MAX_KEY)?;
        check_len("an entry", key.len() + value.len(), MAX_ENTRY)?;
        // First, so that a checkpoint that fails leaves the tree as it was.
        if self.log.len() >= self.options.checkpoint_bytes {
            self.checkpoint()?;
        }
        loop {
            let mut visitor = FindRoom {
                key_len: key.len(),
                value_len: value.len(),
            };
            let descent = descend(&Views(&self.data), key, &mut visitor)?;
            if descent.answer != Some(true) {
                self.split(&descent)?;
            } else if let Some(before) = self.insert_into(&descent.last, key, value)? {
                return Ok(before == Before::Present);
            }
        }
    }

    /// Makes all changes durable that completed before this call. Concurrent callers share syncs of
    /// the storage.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.log.sync_to(self.log.end())
    }

    /// Makes all pages durable, and restarts the log, so that the next open has nothing to redo.
    pub(crate) fn checkpoint(&self) -> Result<(), Error> {
        // Most of the work, concurrent with writers.
        self.data.sync_data()?;
        let _gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        self.data.sync_data()?;
        self.log.restart()
    }

    /// Makes a checkpoint, and closes the files.
    pub(crate) fn close(self) -> Result<(), Error> {
        self.checkpoint()?;
        self.data.close().map_err(|(_, error)| Error::Cache(error))
    }

    /// Locks pages, from the top down. Returns `None` if one of them has changed since it was read.
    fn lock<'t, 's>(
        &'t self,
        steps: impl IntoIterator<Item = &'s Step<Token>>,
    ) -> Result<Option<Locked<'t>>, Error> {
        let mut locked = Locked(Vec::with_capacity(3));
        for &Step { page, ref token } in steps {
            let guard = self.data.pin_mut(page)?;
            let lsn = node::lsn(&guard[..]);
            locked.0.push((page, guard));
            // A locked page does not change any more.
            if !self.data.is_unchanged(token) {
                return Ok(None);
            }
            if lsn.map_err(Error::damaged(page))? > self.log.end() {
                let what = "its last change is not in the log";
                return Err(Error::Damaged { page, what });
            }
        }
        Ok(Some(locked))
    }

    /// Inserts an entry into a leaf. Returns `None` if the leaf has changed since it was read.
    fn insert_into(
        &self,
        leaf: &Step<Token>,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<Before>, Error> {
        let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        let Some(mut locked) = self.lock([leaf])? else {
            return Ok(None);
        };
        let (page, guard) = &mut locked.0[0];
        let page = *page;
        let lsn_before = node::lsn(&guard[..]).map_err(Error::damaged(page))?;
        let Some(before) = node::insert(guard, key, value).map_err(Error::damaged(page))? else {
            return Ok(None);
        };
        let lsn = record_insert(&self.log, (page, guard), lsn_before, (key, value))?;
        locked.publish(lsn, [0]);
        Ok(Some(before))
    }

    /// Splits the last node of a descent; its parent has room. Does nothing if one of them has
    /// changed since it was read.
    fn split(&self, descent: &Descent<Token, bool>) -> Result<(), Error> {
        let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        let steps = descent.parent.iter().chain([&descent.last]);
        let Some(mut locked) = self.lock(steps)? else {
            return Ok(());
        };
        // New pages are locked last: no other thread has their numbers. With a parent: parent,
        // left, right. The root stays at its page, and its entries move to two new ones: root,
        // left, right.
        while locked.0.len() < 3 {
            // If the split fails, the space of the page is lost.
            let page = self.data.append(&[0; PAGE])?.start / PAGE as u64;
            locked.0.push((page, self.data.pin_mut(page)?));
        }
        let [(_, upper), (left_page, left), (right_page, right)] = &mut locked.0[..] else {
            unreachable!("three pages are locked")
        };
        let done = if descent.parent.is_some() {
            node::split(left, right)
                .and_then(|key| node::insert(upper, &key, &right_page.to_le_bytes()))
                .and_then(|before| before.ok_or(Torn).map(|_| ()))
        } else {
            left.copy_from_slice(upper);
            node::split(left, right)
                .and_then(|key| node::make_parent(upper, *left_page, (&key, *right_page)))
        };
        done.map_err(Error::damaged(descent.last.page))?;
        let lsn = record_images(&self.log, &locked.images())?;
        // The pages that receive entries, the page that points to them, the page that loses them.
        match descent.parent {
            Some(_) => locked.publish(lsn, [2, 0, 1]),
            None => locked.publish(lsn, [2, 1, 0]),
        }
        Ok(())
    }
}

/// Locked pages. Dropped without [`publish`](Self::publish), they stay as they were.
struct Locked<'f>(Vec<(u64, PageGuardMut<'f>)>);

impl Locked<'_> {
    fn images(&self) -> Vec<(u64, &[u8])> {
        self.0
            .iter()
            .map(|(page, guard)| (*page, &guard[..]))
            .collect()
    }

    /// Publishes all pages in this order, with the number of their record. Unlocks them after the
    /// last one.
    fn publish<const N: usize>(mut self, lsn: u64, order: [usize; N]) {
        let guards = std::mem::take(&mut self.0).into_iter();
        let mut guards: Vec<_> = guards
            .map(|(_, mut guard)| {
                guard[..8].copy_from_slice(&lsn.to_le_bytes());
                guard.set_lsn(lsn);
                Some(guard)
            })
            .collect();
        let published: Vec<_> = order
            .into_iter()
            .filter_map(|nr| guards[nr].take())
            .map(PageGuardMut::publish)
            .collect();
        drop(published);
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.0.drain(..).for_each(|(_, guard)| guard.cancel());
    }
}

fn check_len(what: &'static str, bytes: usize, max: usize) -> Result<(), Error> {
    if bytes > max {
        return Err(Error::TooLong { what, bytes, max });
    }
    Ok(())
}
