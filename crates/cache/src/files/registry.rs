//! Open files, by identity and by number, and strong references without an owner ([`Share`]).

use std::collections::{HashMap, HashSet};
use std::sync::PoisonError;

use pagewell_io::FileId;
use pagewell_sync::atomic::{AtomicU64, Ordering};
use pagewell_sync::{Arc, Condvar, Mutex, Weak, lock};

use crate::mapping::record::Mapping;
use crate::mapping::users::Users;

#[derive(Debug, Default)]
pub(crate) struct Registry {
    tables: Mutex<Tables>,
    /// Notified when a mapping is registered or removed, and when an open for writing by path ends.
    changed: Condvar,
    next_number: AtomicU64,
}

#[derive(Debug, Default)]
struct Tables {
    /// Files that are being opened for writing by path, from before the file's lock is acquired
    /// until the file is registered or the open has failed. So a thread that finds a file locked by
    /// such an open finds the file here, or registered.
    opening: HashSet<FileId>,
    /// Numbers of each file's mappings: the open one, and those whose backend is being closed.
    by_file: HashMap<FileId, Vec<u64>>,
    by_number: HashMap<u64, Registered>,
}

impl Tables {
    fn mappings(&self, id: FileId) -> impl Iterator<Item = &Weak<Mapping>> {
        let numbers = self.by_file.get(&id).into_iter().flatten();
        numbers.filter_map(|number| self.by_number.get(number).map(|(mapping, _)| mapping))
    }

    fn open(&self, id: FileId) -> Option<Arc<Mapping>> {
        self.mappings(id).find_map(Weak::upgrade)
    }
}

pub(crate) type Registered = (Weak<Mapping>, Arc<Users>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Open,
    Made,
}

impl Registry {
    /// Returns a strong reference to the open mapping of the file `id`, and whether the file was
    /// open. If it was not, `make` creates the mapping with the number that it gets. `make` is
    /// called, and its unused result dropped, without the registry lock, which the eviction of a
    /// leaf acquires. The drop comes after the strong reference is counted: it may take long, and
    /// may close files that belong to the program.
    pub(super) fn open_or_make<E>(
        &self,
        id: FileId,
        make: impl FnOnce(u64) -> Result<Mapping, E>,
    ) -> Result<(Share, Origin), E> {
        if let Some(open) = self.open(id) {
            return Ok((open, Origin::Open));
        }
        // ORDERING: Relaxed; only the uniqueness of the number matters.
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let made = Arc::new(make(number)?);
        let mut tables = lock(&self.tables);
        let open = tables.open(id);
        if open.is_none() {
            tables.by_file.entry(id).or_default().push(number);
            let registered = (Arc::downgrade(&made), Arc::clone(&made.users));
            tables.by_number.insert(number, registered);
        }
        drop(tables);
        if open.is_none() {
            // Threads that wait until another mapping of the file is closed can use the new one.
            self.changed.notify_all();
        }
        Ok(match open {
            Some(open) => (Share::count(open), Origin::Open),
            None => (Share::count(made), Origin::Made),
        })
    }

    pub(super) fn open(&self, id: FileId) -> Option<Share> {
        let open = lock(&self.tables).open(id);
        open.map(Share::count)
    }

    /// Begins to open the file `id` for writing, unless it is open. Waits while another thread
    /// opens the file for writing by path or closes it. So after `Ok`, no mapping of this cache has
    /// the file's lock. (A backend that is about to be registered may have it.)
    ///
    /// # Errors
    ///
    /// A strong reference to the file, if it is open.
    pub(super) fn begin_to_open(&self, id: FileId) -> Result<Begun<'_>, Share> {
        let mut tables = lock(&self.tables);
        loop {
            if !tables.opening.contains(&id) {
                if let Some(open) = tables.open(id) {
                    drop(tables);
                    return Err(Share::count(open));
                }
                if !tables.by_file.contains_key(&id) {
                    tables.opening.insert(id);
                    return Ok(Begun { registry: self, id });
                }
            }
            tables = self
                .changed
                .wait(tables)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether the file `id` is open or being closed.
    pub(crate) fn is_registered(&self, id: FileId) -> bool {
        lock(&self.tables).by_file.contains_key(&id)
    }

    pub(super) fn registered(&self, number: u64) -> Option<Registered> {
        lock(&self.tables).by_number.get(&number).cloned()
    }

    pub(super) fn mapping(&self, number: u64) -> Option<Arc<Mapping>> {
        let (mapping, _) = self.registered(number)?;
        mapping.upgrade()
    }

    pub(super) fn numbers(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = lock(&self.tables).by_number.keys().copied().collect();
        numbers.sort_unstable();
        numbers
    }

    /// Removes mapping `number` of the file `id`, whose backend is closed.
    pub(super) fn forget(&self, id: FileId, number: u64) {
        let mut tables = lock(&self.tables);
        tables.by_number.remove(&number);
        // The other mappings of the file stay: the file may have been opened, and closed, again.
        if let Some(numbers) = tables.by_file.get_mut(&id) {
            numbers.retain(|other| *other != number);
            if numbers.is_empty() {
                tables.by_file.remove(&id);
            }
        }
        drop(tables);
        self.changed.notify_all();
    }
}

/// Right to open a file for writing by path, which no other thread of this cache does concurrently.
#[derive(Debug)]
pub(crate) struct Begun<'r> {
    registry: &'r Registry,
    id: FileId,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        lock(&self.registry.tables).opening.remove(&self.id);
        self.registry.changed.notify_all();
    }
}

/// Counted strong reference without an owner. It must be converted into an
/// [`Opened`](super::opened::Opened), whose drop decrements the count.
#[derive(Debug)]
#[must_use = "otherwise the reference stays counted forever"]
pub(super) struct Share(Arc<Mapping>);

impl Share {
    pub(super) fn count(mapping: Arc<Mapping>) -> Self {
        let users = &mapping.users;
        if users.add_share() {
            mapping.claims().waits.wake(&**users);
        }
        Self(mapping)
    }

    pub(super) fn of_counted(mapping: Arc<Mapping>) -> Self {
        Self(mapping)
    }

    pub(super) fn into_mapping(self) -> Arc<Mapping> {
        self.0
    }
}
