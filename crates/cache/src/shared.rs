//! What the files of one cache share: the pool, the places to wait, the registry of open files.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, Weak};

use pagewell_frame::FramePool;
use pagewell_frame::refcount::RefScheme;
use pagewell_io::FileId;
use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::parking::WaitTable;
use pagewell_sync::{Condvar, Mutex, lock};

use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Op};
use crate::home::Home;
use crate::in_flight::InFlight;
use crate::leaf_stock::LeafStock;
use crate::mapping::Mapping;
use crate::opened::{Opened, Users};
use crate::reclaim::Clock;
use crate::transfers::Transfers;
use crate::writeback::{Bell, LastFailure, Rounds};
use crate::writes::UncleanFrames;

/// What the files of one cache share.
#[derive(Debug)]
pub(crate) struct Shared<S: RefScheme> {
    pub(crate) pool: FramePool<S>,
    home: Home,
    pub(crate) waits: WaitTable,
    pub(crate) clock: Clock,
    pub(crate) counters: Counters,
    pub(crate) budget: Budget,
    version_floor: AtomicU64,
    next_number: AtomicU64,
    next_holder: AtomicU64,
    registry: Mutex<Registry<S>>,
    /// Told when a file is no longer being opened, or closed.
    registry_changed: Condvar,
    /// Frames that will be free to evict soon.
    pub(crate) transfers: Transfers,
    pub(crate) in_flight: InFlight,
    pub(crate) leaf_stock: LeafStock,
    pub(crate) unclean: UncleanFrames,
    pub(crate) last_failure: LastFailure,
    /// Wakes the thread that writes back.
    pub(crate) bell: Arc<Bell>,
    /// The files whose last handle, or last share, went in a hook: the thread that writes back makes them durable.
    pub(crate) to_close: Mutex<Vec<Opened<S>>>,
    /// Whether the thread that writes back was started.
    pub(crate) has_writeback: Mutex<bool>,
    /// Held by the thread that writes back in each of its rounds.
    pub(crate) rounds: Rounds,
    /// What else uses the cache's frames, and is one for all who ask.
    pub(crate) companion: Mutex<Weak<Companion>>,
}

/// Anything: of a crate above, which knows what it is.
pub(crate) type Companion = dyn std::any::Any + Send + Sync;

/// Events that are rare enough to be counted where they happen; hits are not.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    fills: AtomicU64,
    failed_fills: AtomicU64,
    evictions: AtomicU64,
}

/// One of [`Counters`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Fill,
    FailedFill,
    Eviction,
}

impl Counters {
    fn of(&self, event: Event) -> &AtomicU64 {
        match event {
            Event::Fill => &self.fills,
            Event::FailedFill => &self.failed_fills,
            Event::Eviction => &self.evictions,
        }
    }

    pub(crate) fn add(&self, event: Event, n: u64) {
        // Statistics are no part of any protocol, and a model need not explore them.
        if !cfg!(loom) {
            // ORDERING: Relaxed; a statistic.
            self.of(event).fetch_add(n, Ordering::Relaxed);
        }
    }

    pub(crate) fn get(&self, event: Event) -> u64 {
        // ORDERING: Relaxed; a statistic.
        self.of(event).load(Ordering::Relaxed)
    }
}

/// The open files, by what they are and by number.
#[derive(Debug)]
struct Registry<S: RefScheme> {
    /// The files that are just being opened for writing at a path: from before their lock is taken until they are
    /// registered. So who finds a file locked by this cache finds it here, or registered.
    opening: HashSet<FileId>,
    /// The numbers of the mappings of each file: of the one that is open, and of those whose storage is just being closed.
    by_file: HashMap<FileId, Vec<u64>>,
    by_number: HashMap<u64, Registered<S>>,
}

impl<S: RefScheme> Registry<S> {
    /// The mappings of the file `id`, as far as they are there still.
    fn mappings(&self, id: FileId) -> impl Iterator<Item = &Weak<Mapping<S>>> {
        let numbers = self.by_file.get(&id).into_iter().flatten();
        numbers.filter_map(|number| self.by_number.get(number).map(|(mapping, _)| mapping))
    }

    /// The one that is open, if there is one.
    fn open(&self, id: FileId) -> Option<Arc<Mapping<S>>> {
        self.mappings(id).find_map(Weak::upgrade)
    }
}

/// A mapping that is not kept, and who uses it.
type Registered<S> = (Weak<Mapping<S>>, Arc<Users>);

/// Whether a mapping was open already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Open,
    Made,
}

impl<S: RefScheme> Shared<S> {
    pub(crate) fn new(pool: FramePool<S>) -> Self {
        let (nr_frames, nr_nodes) = (pool.nr_frames(), pool.nr_nodes());
        Self {
            pool,
            home: Home::here(),
            waits: WaitTable::new(),
            clock: Clock::new(nr_nodes),
            counters: Counters::default(),
            budget: Budget::default(),
            version_floor: AtomicU64::new(0),
            next_number: AtomicU64::new(0),
            next_holder: AtomicU64::new(0),
            transfers: Transfers::new(nr_nodes),
            in_flight: InFlight::new(nr_frames),
            leaf_stock: LeafStock::default(),
            unclean: UncleanFrames::new(nr_frames),
            bell: Arc::default(),
            to_close: Mutex::new(Vec::new()),
            last_failure: LastFailure::default(),
            has_writeback: Mutex::new(false),
            rounds: Rounds::default(),
            companion: Mutex::new(Weak::<()>::new()),
            registry_changed: Condvar::new(),
            registry: Mutex::new(Registry {
                opening: HashSet::new(),
                by_file: HashMap::new(),
                by_number: HashMap::new(),
            }),
        }
    }

    /// Whether this process is the one that made the cache, and no child of it: only that one changes anything.
    #[inline]
    pub(crate) fn is_home(&self) -> bool {
        self.home.is_here()
    }

    /// As [`is_home`](Self::is_home).
    #[inline]
    pub(crate) fn check_home(&self, op: Op) -> Result<(), Error> {
        if self.is_home() {
            return Ok(());
        }
        Err(self.forked(op))
    }

    #[cold]
    fn forked(&self, op: Op) -> Error {
        Error::new(ErrorKind::Forked, op).with_detail(format!(
            "process {}; made by process {}",
            std::process::id(),
            self.home.process()
        ))
    }

    /// A version above all that slots of leaves that were taken out of use have had.
    pub(crate) fn version_floor(&self) -> u64 {
        // ORDERING: Relaxed; what matters is a leaf's own last life, and whoever makes the leaf has
        // acquired the root entry that was released after the floor was raised for it.
        self.version_floor.load(Ordering::Relaxed)
    }

    /// Raises the floor to `version` at least.
    pub(crate) fn raise_version_floor(&self, version: u64) {
        // ORDERING: Relaxed; as above.
        self.version_floor.fetch_max(version, Ordering::Relaxed);
    }

    /// The open mapping of the file `id`, or the one that `make` makes of the number that it is given;
    /// and whether that was so.
    ///
    /// `make` is called without the registry's lock: it may evict, which looks mappings up.
    pub(crate) fn mapping_or_else<E>(
        &self,
        id: FileId,
        make: impl FnOnce(u64) -> Result<Mapping<S>, E>,
    ) -> Result<(Opened<S>, Origin), E> {
        if let Some(open) = self.mapping_of(id) {
            return Ok((open, Origin::Open));
        }
        // ORDERING: Relaxed; only the uniqueness of the number matters, and atomicity gives it.
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let made = Arc::new(make(number)?);
        let mut registry = lock(&self.registry);
        let open = registry.open(id);
        if open.is_none() {
            registry.by_file.entry(id).or_default().push(number);
            let registered = (Arc::downgrade(&made), Arc::clone(made.users()));
            registry.by_number.insert(number, registered);
        }
        drop(registry);
        if open.is_none() {
            // Who waits for another mapping of it to be closed has this one.
            self.registry_changed.notify_all();
        }
        // If someone else was faster, ours is torn down here, after the lock was released.
        Ok(match open {
            Some(open) => (Opened::new(open), Origin::Open),
            None => (Opened::new(made), Origin::Made),
        })
    }

    /// The open mapping of the file `id`.
    pub(crate) fn mapping_of(&self, id: FileId) -> Option<Opened<S>> {
        let open = lock(&self.registry).open(id);
        open.map(Opened::new)
    }

    /// Begins to open the file `id` for writing, unless it is open. Waits for who is just opening it, and until its storage
    /// is closed if it is just being closed: then nobody in this cache has its lock.
    pub(crate) fn begin_to_open(&self, id: FileId) -> Opening<'_, S> {
        let mut registry = lock(&self.registry);
        loop {
            if !registry.opening.contains(&id) {
                if let Some(open) = registry.open(id) {
                    drop(registry);
                    return Opening::Already(Opened::new(open));
                }
                if !registry.by_file.contains_key(&id) {
                    registry.opening.insert(id);
                    return Opening::Begun(Begun { shared: self, id });
                }
            }
            registry = self
                .registry_changed
                .wait(registry)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether the file `id` is open, or its storage is just being closed.
    pub(crate) fn is_registered(&self, id: FileId) -> bool {
        lock(&self.registry).by_file.contains_key(&id)
    }

    /// The mapping with this number, if there is one.
    pub(crate) fn registered(&self, number: u64) -> Option<Registered<S>> {
        lock(&self.registry).by_number.get(&number).cloned()
    }

    /// A number for who locks a page.
    pub(crate) fn next_holder(&self) -> u64 {
        // ORDERING: Relaxed; only the uniqueness of the number matters, and atomicity gives it.
        self.next_holder.fetch_add(1, Ordering::Relaxed)
    }

    /// The numbers of all open mappings.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        lock(&self.registry).by_number.keys().copied().collect()
    }

    /// Forgets a mapping that was torn down, and whose storage is closed.
    pub(crate) fn forget(&self, id: FileId, number: u64) {
        let mut registry = lock(&self.registry);
        registry.by_number.remove(&number);
        // The file may have been opened again in the meantime, and be being closed again: other mappings of it stay.
        if let Some(numbers) = registry.by_file.get_mut(&id) {
            numbers.retain(|other| *other != number);
            if numbers.is_empty() {
                registry.by_file.remove(&id);
            }
        }
        drop(registry);
        self.registry_changed.notify_all();
    }
}

/// What there is to do for who wants to open a file for writing.
#[derive(Debug)]
pub(crate) enum Opening<'s, S: RefScheme> {
    /// Nothing: it is open.
    Already(Opened<S>),
    /// To lock it, and to register it.
    Begun(Begun<'s, S>),
}

/// A file that nobody else in this cache opens for writing at a path, as long as this exists.
#[derive(Debug)]
pub(crate) struct Begun<'s, S: RefScheme> {
    shared: &'s Shared<S>,
    id: FileId,
}

impl<S: RefScheme> Drop for Begun<'_, S> {
    fn drop(&mut self) {
        lock(&self.shared.registry).opening.remove(&self.id);
        self.shared.registry_changed.notify_all();
    }
}
