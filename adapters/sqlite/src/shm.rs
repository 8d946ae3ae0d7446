//! Index of a write-ahead log (SQLite's *wal-index*), and its locks: SQLite's shared memory. It is
//! memory of this process, since no other process has the database open.
//!
//! Its regions are initially zero, and stay in place while a connection has them mapped. Each of
//! eight locks is shared by any number of connections or held exclusively by one.

#![allow(unsafe_code)] // Memory that SQLite writes.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::c_int;
use std::ptr::NonNull;

use crate::abi::{SHM_EXCLUSIVE, SHM_LOCK, SHM_NLOCK, SHM_SHARED, SHM_UNLOCK};

#[derive(Debug)]
struct Region {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the region is plain memory. Only SQLite accesses it, in any thread, by its own rules.
unsafe impl Send for Region {}

impl Region {
    fn new(bytes: usize) -> Option<Self> {
        let layout = Layout::from_size_align(bytes, 4096).ok()?;
        if bytes == 0 {
            return None;
        }
        // SAFETY: the size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        Some(Self {
            start: NonNull::new(start)?,
            layout,
        })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: `new` allocated the memory with this layout, and no connection has it mapped
        // (`Shm::leave`).
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// Locks of one connection, one bit each, and whether it has the memory mapped.
#[derive(Debug, Default)]
pub(crate) struct ShmHandle {
    is_mapped: bool,
    shared: u8,
    exclusive: u8,
}

#[derive(Debug, Default)]
pub(crate) struct Shm {
    regions: Vec<Region>,
    nr_users: usize,
    /// Number of connections that share each lock; -1 if one holds it exclusively.
    locks: [i32; SHM_NLOCK],
}

/// Error: the request is invalid. No version of SQLite makes such a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Misuse;

#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum ShmLocked {
    Done,
    Busy,
}

#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Mapped {
    At(NonNull<u8>),
    /// The region does not exist, and may not be created.
    Missing,
    /// No memory is available, or the region is smaller than requested.
    NoMemory,
}

impl ShmHandle {
    pub(crate) fn is_mapped(&self) -> bool {
        self.is_mapped
    }
}

impl Shm {
    /// Maps the memory for the connection, and returns region `nr`, of `bytes` bytes. If
    /// `may_grow`, creates missing regions.
    pub(crate) fn map(
        &mut self,
        handle: &mut ShmHandle,
        nr: usize,
        bytes: usize,
        may_grow: bool,
    ) -> Mapped {
        if !handle.is_mapped {
            handle.is_mapped = true;
            self.nr_users += 1;
        }
        if nr >= self.regions.len() && !may_grow {
            return Mapped::Missing;
        }
        while self.regions.len() <= nr {
            match Region::new(bytes) {
                Some(region) => self.regions.push(region),
                None => return Mapped::NoMemory,
            }
        }
        let region = &self.regions[nr];
        if region.layout.size() < bytes {
            return Mapped::NoMemory;
        }
        Mapped::At(region.start)
    }

    /// Acquires or releases `nr` locks from `first` on, all of them or none.
    pub(crate) fn lock(
        &mut self,
        handle: &mut ShmHandle,
        first: usize,
        nr: usize,
        flags: c_int,
    ) -> Result<ShmLocked, Misuse> {
        const UNLOCK_SHARED: c_int = SHM_UNLOCK | SHM_SHARED;
        const UNLOCK_EXCLUSIVE: c_int = SHM_UNLOCK | SHM_EXCLUSIVE;
        const LOCK_SHARED: c_int = SHM_LOCK | SHM_SHARED;
        const LOCK_EXCLUSIVE: c_int = SHM_LOCK | SHM_EXCLUSIVE;
        let range = first..first.checked_add(nr).ok_or(Misuse)?;
        if nr == 0 || range.end > SHM_NLOCK {
            return Err(Misuse);
        }
        let mask = range.clone().fold(0_u8, |mask, lock| mask | 1 << lock);
        match flags {
            UNLOCK_SHARED | UNLOCK_EXCLUSIVE => self.unlock(handle, mask),
            LOCK_SHARED => {
                // An exclusive lock of this connection conflicts, too, as in SQLite's VFS for Unix.
                let missing = mask & !handle.shared;
                if self.of(missing).any(|lock| *lock < 0) {
                    return Ok(ShmLocked::Busy);
                }
                self.of(missing).for_each(|lock| *lock += 1);
                handle.shared |= missing;
            }
            LOCK_EXCLUSIVE => {
                let missing = mask & !handle.exclusive;
                if self.of(missing).any(|lock| *lock != 0) {
                    return Ok(ShmLocked::Busy);
                }
                self.of(missing).for_each(|lock| *lock = -1);
                handle.exclusive |= missing;
            }
            _ => return Err(Misuse),
        }
        Ok(ShmLocked::Done)
    }

    /// Releases the locks and the mapping of a connection. The last mapping frees the memory.
    pub(crate) fn leave(&mut self, handle: &mut ShmHandle) {
        // SQLite maps before it locks, but locks without a mapping are released, too.
        self.unlock(handle, u8::MAX);
        if !handle.is_mapped {
            return;
        }
        handle.is_mapped = false;
        self.nr_users -= 1;
        if self.nr_users == 0 {
            self.regions.clear();
        }
    }

    fn unlock(&mut self, handle: &mut ShmHandle, mask: u8) {
        self.of(mask & handle.shared).for_each(|lock| *lock -= 1);
        self.of(mask & handle.exclusive).for_each(|lock| *lock = 0);
        handle.shared &= !mask;
        handle.exclusive &= !mask;
    }

    fn of(&mut self, mask: u8) -> impl Iterator<Item = &mut i32> {
        let locks = self.locks.iter_mut().enumerate();
        locks
            .filter(move |(nr, _)| mask & 1 << nr != 0)
            .map(|(_, lock)| lock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAKE: c_int = SHM_LOCK | SHM_EXCLUSIVE;
    const SHARE: c_int = SHM_LOCK | SHM_SHARED;
    const GIVE: c_int = SHM_UNLOCK | SHM_EXCLUSIVE;
    const UNSHARE: c_int = SHM_UNLOCK | SHM_SHARED;

    #[test]
    fn a_lock_is_shared_or_had_by_one_and_several_are_taken_together_or_not_at_all() {
        let mut shm = Shm::default();
        let (mut a, mut b) = (ShmHandle::default(), ShmHandle::default());
        assert_eq!(shm.lock(&mut a, 3, 1, SHARE), Ok(ShmLocked::Done));
        assert_eq!(shm.lock(&mut b, 3, 1, SHARE), Ok(ShmLocked::Done));
        assert_eq!(shm.lock(&mut b, 2, 1, SHARE), Ok(ShmLocked::Done));
        assert_eq!(shm.lock(&mut b, 2, 1, UNSHARE), Ok(ShmLocked::Done));
        // One of the locks 2, 3 and 4 conflicts, so none is acquired.
        let mut c = ShmHandle::default();
        assert_eq!(shm.lock(&mut c, 2, 3, TAKE), Ok(ShmLocked::Busy));
        assert_eq!(shm.locks, [0, 0, 0, 2, 0, 0, 0, 0]);
        assert_eq!(shm.lock(&mut a, 3, 1, UNSHARE), Ok(ShmLocked::Done));
        assert_eq!(shm.lock(&mut b, 3, 1, UNSHARE), Ok(ShmLocked::Done));
        assert_eq!(shm.lock(&mut c, 2, 3, TAKE), Ok(ShmLocked::Done));
        assert_eq!(shm.lock(&mut a, 4, 1, SHARE), Ok(ShmLocked::Busy));
        assert_eq!(shm.lock(&mut a, 4, 1, TAKE), Ok(ShmLocked::Busy));
        assert_eq!(shm.lock(&mut c, 2, 3, GIVE), Ok(ShmLocked::Done));
        assert_eq!(shm.locks, [0; SHM_NLOCK]);
    }

    #[test]
    fn who_leaves_has_no_locks_and_the_last_one_takes_the_memory_along() {
        let mut shm = Shm::default();
        let (mut a, mut b) = (ShmHandle::default(), ShmHandle::default());
        assert_eq!(shm.map(&mut a, 0, 32_768, false), Mapped::Missing);
        let Mapped::At(first) = shm.map(&mut a, 0, 32_768, true) else {
            panic!("there is memory");
        };
        let Mapped::At(_) = shm.map(&mut a, 2, 32_768, true) else {
            panic!("there is memory");
        };
        assert_eq!(shm.map(&mut b, 0, 32_768, false), Mapped::At(first));
        assert_eq!(shm.lock(&mut a, 0, 8, TAKE), Ok(ShmLocked::Done));
        shm.leave(&mut a);
        shm.leave(&mut a);
        assert_eq!(shm.lock(&mut b, 0, 8, TAKE), Ok(ShmLocked::Done));
        assert_eq!(shm.regions.len(), 3);
        shm.leave(&mut b);
        assert_eq!((shm.regions.len(), shm.locks), (0, [0; SHM_NLOCK]));
    }

    #[test]
    fn locks_without_a_mapping_are_released() {
        let mut shm = Shm::default();
        let (mut a, mut b) = (ShmHandle::default(), ShmHandle::default());
        let Mapped::At(_) = shm.map(&mut b, 0, 32_768, true) else {
            panic!("there is memory");
        };
        assert_eq!(shm.lock(&mut a, 0, 1, SHARE), Ok(ShmLocked::Done));
        assert_eq!(shm.lock(&mut a, 1, 1, TAKE), Ok(ShmLocked::Done));
        shm.leave(&mut a);
        assert_eq!(shm.lock(&mut b, 0, 8, TAKE), Ok(ShmLocked::Done));
        assert_eq!((shm.nr_users, shm.regions.len()), (1, 1));
    }

    #[test]
    fn what_sqlite_does_not_ask_is_refused() {
        let mut shm = Shm::default();
        let mut a = ShmHandle::default();
        for (first, nr, flags) in [
            (0, 0, TAKE),
            (7, 2, TAKE),
            (usize::MAX, 2, TAKE),
            (0, 1, SHM_LOCK),
            (0, 1, 0),
        ] {
            assert_eq!(shm.lock(&mut a, first, nr, flags), Err(Misuse));
        }
        assert_eq!(shm.lock(&mut a, 0, 1, SHARE), Ok(ShmLocked::Done));
        assert_eq!(shm.lock(&mut a, 0, 1, TAKE), Ok(ShmLocked::Busy));
        assert_eq!(shm.lock(&mut a, 1, 1, TAKE), Ok(ShmLocked::Done));
        assert_eq!(shm.lock(&mut a, 1, 1, SHARE), Ok(ShmLocked::Busy));
    }
}
