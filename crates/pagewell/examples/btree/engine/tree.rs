//! The tree: opening and recovery, inserts, splits, checkpoints.
//!
//! **Writers.** They go down by views, as readers; lock what they change, from the top down and from left to right, and ask the tokens; change the
//! copies that the guards have; add a record to the log; publish. Nothing is published before its record is in the log, and the data
//! file's hook makes the log durable before a page is written. What fails before the record was added is undone by giving the guards up.
//!
//! **Checkpoints.** Writers hold `gate` shared from before the record until the pages are published. A checkpoint has it for itself: so
//! all that the log says is in the pages, which are made durable; then the log starts over. Most pages are made durable before that, while writers go
//! on. Readers wait for nothing.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use pagewell::{Cache, File, OpenOptions, PageGuardMut, Token, Torn};

use super::access::Views;
use super::ahead;
use super::change::{Change, record_pages, redo};
use super::descent::{End, ROOT, Reader, Step, Way, go_down};
use super::errands::{FindRoom, Says};
use super::error::Error;
use super::free::find_free;
use super::log::{Found, Log};
use super::node::{self, MAX_ENTRY, MAX_KEY, PAGE, Was};
use super::snapshot::{Snapshot, Snapshots};

/// How a tree is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// When the log has so many bytes, the call that finds it makes a checkpoint.
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
    pub(super) log: Arc<Log>,
    pub(super) gate: RwLock<()>,
    options: Options,
    snapshots: Snapshots,
    /// Pages that no node names.
    free: Mutex<Vec<u64>>,
}

/// An attempt has met what another thread changes.
pub(super) struct StartOver;

impl Tree {
    /// Opens the tree in two files, and makes it if there is none; both files are created.
    pub(crate) fn open(
        cache: &Cache,
        data: &std::path::Path,
        log: &std::path::Path,
        options: Options,
    ) -> Result<Tree, Error> {
        let create = OpenOptions::new().create().page_size(PAGE);
        let log = cache.open_with(log, &create)?;
        Tree::open_files(log, options, |hook| {
            cache.open_with(data, &hook(create.clone()))
        })
    }

    /// As [`open`](Self::open), in any files of the cache with pages of 4 KiB. `open_data` opens the data file for writing, with the options
    /// that the function which it gets makes of some.
    pub(crate) fn open_files(
        log: File,
        options: Options,
        open_data: impl FnOnce(&dyn Fn(OpenOptions) -> OpenOptions) -> Result<File, pagewell::Error>,
    ) -> Result<Tree, Error> {
        let (log, found) = Log::open(log)?;
        let log = Arc::new(log);
        let data = open_data(&|options: OpenOptions| {
            let log = Arc::clone(&log);
            options.before_write(move |_page, lsn| {
                log.sync_to(lsn).map_err(|error| match error {
                    Error::Cache(error) => error.into(),
                    error => std::io::Error::other(error.to_string()),
                })
            })
        })?;
        if data.page_size() != PAGE {
            return Err(Error::NoTree("the data file's pages are not of 4 KiB"));
        }
        if found == Found::Nothing && data.size() != 0 {
            return Err(Error::NoTree("there are data, and the log is missing"));
        }
        if log.base() != 0 && data.size() == 0 {
            return Err(Error::NoTree("there is a log, and its data are missing"));
        }
        let tree = Tree {
            data,
            log,
            gate: RwLock::new(()),
            options,
            snapshots: Snapshots::default(),
            free: Mutex::default(),
        };
        tree.recover()?;
        *tree.free_pages() = find_free(&tree.data);
        Ok(tree)
    }

    /// Does again what the log has, and makes a checkpoint.
    fn recover(&self) -> Result<(), Error> {
        self.log.read(|lsn, body| redo(&self.data, lsn, body))?;
        // A page that the end of the file cuts was added to it, and nothing else: else a record would have made it whole.
        let whole = self.data.size().next_multiple_of(PAGE as u64);
        if whole != self.data.size() {
            self.data.set_size(whole)?;
        }
        if whole == 0 {
            self.data.append(&[0; PAGE])?;
        }
        let mut root = self.data.pin_mut(ROOT)?;
        if self.log.end() == 0 && root.iter().all(|byte| *byte == 0) {
            // There is no record of it, so there is none of anything.
            let made = node::init(&mut root, 0).map_err(|Torn| malformed(ROOT));
            let lsn = made.and_then(|()| record_pages(&self.log, &[(ROOT, &root)]));
            match lsn {
                Ok(lsn) => set_lsn(&mut root, lsn),
                Err(error) => {
                    root.cancel();
                    return Err(error);
                }
            }
            drop(root);
        } else {
            let head = node::head(&root[..]);
            root.cancel();
            if head.is_err() {
                return Err(Error::NoTree("the first page is no node"));
            }
        }
        self.checkpoint()
    }

    /// The tree by views, as readers use it.
    pub(crate) fn reader(&self) -> Reader<Views<'_>> {
        Reader(Views(&self.data))
    }

    /// The data file, for other ways to read it.
    pub(crate) fn data(&self) -> &File {
        &self.data
    }

    /// Puts an entry in, or gives it another value; returns whether it was there. It is durable after [`sync`](Self::sync), and is never
    /// there in part.
    pub(crate) fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        check_len(key.len(), MAX_KEY)?;
        check_len(key.len() + value.len(), MAX_ENTRY)?;
        let was = loop {
            let mut errand = FindRoom {
                key_len: key.len(),
                value_len: value.len(),
            };
            let way = go_down(&Views(&self.data), key, &mut errand)?;
            if matches!(way.end, End::Inner | End::Leaf(Says::NoRoom)) {
                self.split(&way)?;
            } else if let Ok(Some(was)) = self.change(&way.last, Change::Insert(key, value))? {
                break was;
            }
        };
        self.checkpoint_if_long()?;
        Ok(was == Was::There)
    }

    /// The tree as it is now, to be read while it is changed. The writers that are at work are waited for.
    pub(crate) fn snapshot(&self) -> Snapshot<'_> {
        let _gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        self.snapshots.add(&self.data, self.log.end())
    }

    /// As [`Reader::scan`], for long scans of a tree that is not cached: `nr_threads` threads read leaves in before they are wanted.
    pub(crate) fn scan_ahead(
        &self,
        nr_threads: usize,
        from: &[u8],
        take: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        ahead::scan(&self.data, nr_threads, from, take)
    }

    /// Makes durable all that calls have done that returned before this one. Threads that call it together share syncs of the storage.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.log.sync_to(self.log.end())
    }

    /// Makes all pages durable, so that the log starts over, and opening has nothing to do again.
    pub(crate) fn checkpoint(&self) -> Result<(), Error> {
        // Most of the work, while writers go on.
        self.data.sync_data()?;
        let _gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        self.data.sync_data()?;
        self.log.start_over()
    }

    pub(super) fn checkpoint_if_long(&self) -> Result<(), Error> {
        if self.log.len() >= self.options.checkpoint_bytes {
            self.checkpoint()?;
        }
        Ok(())
    }

    /// Makes a checkpoint, and closes the files.
    pub(crate) fn close(self) -> Result<(), Error> {
        self.checkpoint()?;
        self.data.close().map_err(|(_, error)| Error::Cache(error))
    }

    /// Has the snapshots keep a page that is locked and about to be changed.
    pub(super) fn keep(&self, page: u64, bytes: &[u8]) -> Result<(), Error> {
        let lsn = node::lsn(bytes).map_err(|Torn| malformed(page))?;
        self.snapshots.keep(page, bytes, lsn);
        Ok(())
    }

    /// How many pages are free.
    pub(crate) fn nr_free(&self) -> usize {
        self.free_pages().len()
    }

    /// The pages that no node names. The lock is for a moment.
    pub(super) fn free_pages(&self) -> MutexGuard<'_, Vec<u64>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks a node, if it is still as it was seen.
    pub(super) fn lock(
        &self,
        step: &Step<Token>,
    ) -> Result<Result<PageGuardMut<'_>, StartOver>, Error> {
        let guard = self.data.pin_mut(step.page)?;
        // From now on it stays what it is.
        if self.data.is_unchanged(&step.token) {
            return Ok(Ok(guard));
        }
        guard.cancel();
        Ok(Err(StartOver))
    }

    /// Changes a leaf. `None` if there is no room.
    pub(super) fn change(
        &self,
        leaf: &Step<Token>,
        change: Change<'_>,
    ) -> Result<Result<Option<Was>, StartOver>, Error> {
        let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        let mut guard = match self.lock(leaf)? {
            Ok(guard) => guard,
            Err(start_over) => return Ok(Err(start_over)),
        };
        let (page, mut was) = (leaf.page, None);
        if let Err(error) = self.keep(page, &guard) {
            guard.cancel();
            return Err(error);
        }
        let recorded = node::lsn(&guard[..])
            .and_then(|before| {
                was = change.apply(&mut guard)?;
                Ok(before)
            })
            .map_err(|Torn| malformed(page))
            .and_then(|before| match was {
                Some(_) => change.record(&self.log, page, &guard, before).map(Some),
                None => Ok(None),
            });
        match recorded {
            Ok(Some(lsn)) => set_lsn(&mut guard, lsn),
            Ok(None) => guard.cancel(),
            Err(error) => {
                guard.cancel();
                return Err(error);
            }
        }
        Ok(Ok(was))
    }

    /// A free page, or a new one at the end of the file; locked. Nobody else knows of it. If it is not used after all, it is free when the tree
    /// is opened again.
    fn new_page(&self) -> Result<(u64, PageGuardMut<'_>), Error> {
        let free = self.free_pages().pop();
        if let Some(page) = free {
            return Ok((page, self.data.pin_mut(page)?));
        }
        let page = self.data.append(&[0; PAGE])?.start / PAGE as u64;
        Ok((page, self.data.pin_mut(page)?))
    }

    /// Splits the last node of a way; the one above is not full. Does nothing if they are not what they were.
    fn split(&self, way: &Way<Token, Says>) -> Result<(), Error> {
        let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        let mut guards = Guards(Vec::with_capacity(3));
        for step in way.above.iter().chain([&way.last]) {
            match self.lock(step)? {
                Ok(guard) => guards.0.push((step.page, guard)),
                Err(StartOver) => return Ok(()),
            }
        }
        for (page, guard) in &guards.0 {
            self.keep(*page, guard)?;
        }
        guards.0.push(self.new_page()?);
        if way.above.is_none() {
            guards.0.push(self.new_page()?);
        }
        let page = way.last.page;
        let done = match (&mut guards.0[..], &way.above) {
            ([(_, parent), (_, full), (right_page, right)], Some(_)) => node::split(full, right)
                .and_then(|key| node::insert(parent, &key, &right_page.to_le_bytes()))
                .and_then(|was| was.ok_or(Torn).map(|_| ())),
            // The root stays where it is, and its entries go to two new pages.
            ([(_, root), (left_page, left), (right_page, right)], None) => {
                left.copy_from_slice(root);
                node::split(left, right)
                    .and_then(|key| node::make_parent(root, *left_page, (&key, *right_page)))
            }
            _ => Err(Torn),
        };
        done.map_err(|Torn| malformed(page))?;
        let pages: Vec<_> = guards
            .0
            .iter()
            .map(|(page, guard)| (*page, &guard[..]))
            .collect();
        let lsn = record_pages(&self.log, &pages)?;
        // Where entries go, who says where they are, where they were. They are in the order of locking: parent, left, right; or root,
        // left, right. And nobody else changes any of them before that is done.
        let order = if way.above.is_some() {
            [2, 0, 1]
        } else {
            [2, 1, 0]
        };
        publish(guards, lsn, order);
        Ok(())
    }
}

/// Publishes pages, whose change has this number, in this order; they stay locked until that is done.
pub(super) fn publish<const N: usize>(mut guards: Guards<'_>, lsn: u64, order: [usize; N]) {
    let mut guards = std::mem::take(&mut guards.0);
    for (_, guard) in &mut guards {
        set_lsn(guard, lsn);
    }
    let mut guards: Vec<_> = guards.into_iter().map(|(_, guard)| Some(guard)).collect();
    let published: Vec<_> = order
        .into_iter()
        .filter_map(|nr| guards[nr].take())
        .map(PageGuardMut::publish)
        .collect();
    drop(published);
}

/// Pages that are locked. Those that are left when this is dropped stay as they were.
pub(super) struct Guards<'f>(pub(super) Vec<(u64, PageGuardMut<'f>)>);

impl Drop for Guards<'_> {
    fn drop(&mut self) {
        self.0.drain(..).for_each(|(_, guard)| guard.cancel());
    }
}

pub(super) fn check_len(bytes: usize, most: usize) -> Result<(), Error> {
    if bytes > most {
        return Err(Error::TooLong { bytes, most });
    }
    Ok(())
}

pub(super) fn malformed(page: u64) -> Error {
    Error::Malformed {
        page,
        what: "something in it leads out of it",
    }
}

/// Gives a page that is about to be published its log sequence number.
fn set_lsn(guard: &mut PageGuardMut<'_>, lsn: u64) {
    guard[..8].copy_from_slice(&lsn.to_le_bytes());
    guard.set_lsn(lsn);
}
