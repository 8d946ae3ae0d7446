//! What the files of one cache share: the pool, the places to wait, the registry of open files.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use pagewell_frame::FramePool;
use pagewell_frame::refcount::RefScheme;
use pagewell_io::FileId;
use pagewell_sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use pagewell_sync::parking::WaitTable;
use pagewell_sync::{Mutex, lock};

use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Op};
use crate::home::Home;
use crate::in_flight::InFlight;
use crate::leaf_stock::LeafStock;
use crate::mapping::Mapping;
use crate::reclaim::Clock;
use crate::transfers::Transfers;
use crate::writeback::{Bell, LastFailure};
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
    /// Mappings whose last handle went while an eviction looked at them.
    graves: Mutex<Vec<Mapping<S>>>,
    /// How many mappings are in a grave, or about to be, or being torn down from there.
    nr_graves: AtomicUsize,
    /// Frames that will be free to evict soon.
    pub(crate) transfers: Transfers,
    pub(crate) in_flight: InFlight,
    pub(crate) leaf_stock: LeafStock,
    pub(crate) unclean: UncleanFrames,
    pub(crate) last_failure: LastFailure,
    /// Wakes the thread that writes back.
    pub(crate) bell: Arc<Bell>,
    /// The files whose last handle went in a hook: the thread that writes back makes them durable.
    pub(crate) to_close: Mutex<Vec<Arc<Mapping<S>>>>,
    /// Whether the thread that writes back was started.
    pub(crate) has_writeback: Mutex<bool>,
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
    by_file: HashMap<FileId, Weak<Mapping<S>>>,
    by_number: HashMap<u64, Weak<Mapping<S>>>,
}

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
            graves: Mutex::new(Vec::new()),
            nr_graves: AtomicUsize::new(0),
            transfers: Transfers::new(nr_nodes),
            in_flight: InFlight::new(nr_frames),
            leaf_stock: LeafStock::default(),
            unclean: UncleanFrames::new(nr_frames),
            bell: Arc::default(),
            to_close: Mutex::new(Vec::new()),
            last_failure: LastFailure::default(),
            has_writeback: Mutex::new(false),
            companion: Mutex::new(Weak::<()>::new()),
            registry: Mutex::new(Registry {
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
    ) -> Result<(Arc<Mapping<S>>, Origin), E> {
        if let Some(open) = self.mapping_of(id) {
            return Ok((open, Origin::Open));
        }
        // ORDERING: Relaxed; only the uniqueness of the number matters, and atomicity gives it.
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let made = Arc::new(make(number)?);
        let mut registry = lock(&self.registry);
        let open = registry.by_file.get(&id).and_then(Weak::upgrade);
        if open.is_none() {
            registry.by_file.insert(id, Arc::downgrade(&made));
            registry.by_number.insert(number, Arc::downgrade(&made));
        }
        drop(registry);
        // If someone else was faster, ours is torn down here, after the lock was released.
        Ok(match open {
            Some(open) => (open, Origin::Open),
            None => (made, Origin::Made),
        })
    }

    /// The open mapping of the file `id`. As for [`mapping`](Self::mapping).
    pub(crate) fn mapping_of(&self, id: FileId) -> Option<Arc<Mapping<S>>> {
        lock(&self.registry)
            .by_file
            .get(&id)
            .and_then(Weak::upgrade)
    }

    /// The open mapping with this number. The caller must not hold the registry's lock when it drops
    /// the answer, which may be the last handle.
    pub(crate) fn mapping(&self, number: u64) -> Option<Arc<Mapping<S>>> {
        lock(&self.registry)
            .by_number
            .get(&number)
            .and_then(Weak::upgrade)
    }

    /// A number for who locks a page.
    pub(crate) fn next_holder(&self) -> u64 {
        // ORDERING: Relaxed; only the uniqueness of the number matters, and atomicity gives it.
        self.next_holder.fetch_add(1, Ordering::Relaxed)
    }

    /// All open mappings. The caller lets go of each with [`let_go`](Self::let_go).
    pub(crate) fn mappings(&self) -> Vec<Arc<Mapping<S>>> {
        let registry = lock(&self.registry);
        registry
            .by_number
            .values()
            .filter_map(Weak::upgrade)
            .collect()
    }

    /// Lets go of a mapping that an eviction has looked up. If the last handle went meanwhile, the mapping
    /// is kept until [`bury`](Self::bury): an eviction may run under a claim, and tearing a mapping down
    /// waits for claims and calls the user's backend.
    pub(crate) fn let_go(&self, mapping: Arc<Mapping<S>>) {
        // ORDERING: Relaxed, here and below: who has found a file locked by a mapping that was let go asks again
        // until it is not, and is ordered by the file's lock.
        self.nr_graves.fetch_add(1, Ordering::Relaxed);
        match Arc::into_inner(mapping) {
            Some(last) => lock(&self.graves).push(last),
            None => _ = self.nr_graves.fetch_sub(1, Ordering::Relaxed),
        }
    }

    /// Whether a mapping without handles may not be torn down yet, and have its file open.
    pub(crate) fn has_graves(&self) -> bool {
        self.nr_graves.load(Ordering::Relaxed) != 0
    }

    /// Tears down what [`let_go`](Self::let_go) has kept. To be called with no claim held.
    pub(crate) fn bury(&self) {
        loop {
            let mapping = lock(&self.graves).pop();
            let Some(mapping) = mapping else {
                return;
            };
            drop(mapping);
            self.nr_graves.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Forgets a mapping that is being torn down.
    pub(crate) fn forget(&self, id: FileId, number: u64) {
        let mut registry = lock(&self.registry);
        registry.by_number.remove(&number);
        // The file may have been opened again in the meantime; that mapping stays.
        if let Some(mapping) = registry.by_file.get(&id)
            && mapping.strong_count() == 0
        {
            registry.by_file.remove(&id);
        }
    }
}
