#![allow(unsafe_code)] // `state`: stores to the owner's word need a safety contract.

use pagewell_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use pagewell_sync::scaled;

use crate::count::RefCount;
use crate::memory::PoolError;
use crate::words::kind::{self, FrameKind};
use crate::words::{FrameNr, Order};

/// Metadata record of a frame: 64 bytes, so that two records never share a cache line. It lives as
/// long as the pool, so a stale frame number names a readable record.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct FrameMeta {
    /// Reference count. A `try_get` fails while the frame is free, frozen or a tail.
    pub(crate) refs: RefCount,
    /// Kind word: stable only for the holder of a reference, of the frozen count or of the node's
    /// lock. [`FrameKind`] states which thread may change it.
    word: AtomicU32,
    /// Hazard protection. [`announce`](crate::announce) states the access rules.
    mark: AtomicU32,
    /// Owner of the frame. Written by the holder of the [`UniqueFrame`](crate::UniqueFrame) before
    /// publication; stable while a reference is held. The same holds for `index` and `private`.
    owner: AtomicU64,
    /// Position of the frame in its owner.
    index: AtomicU64,
    /// Two words of the owner, with a meaning that depends on the kind. The owner may change the
    /// first one while references exist ([`state`](Self::state)).
    private: [AtomicU64; 2],
    /// Links of the node's free list; accessed under the node's lock.
    pub(crate) next: AtomicU32,
    pub(crate) prev: AtomicU32,
}

// The atomics of models are larger.
const _: () = assert!(scaled(size_of::<FrameMeta>(), 64) == 64);

pub(crate) const NIL: u32 = u32::MAX;

impl FrameMeta {
    pub(crate) fn new() -> Self {
        Self {
            refs: RefCount::new_locked(),
            word: AtomicU32::new(kind::pack(FrameKind::Tail, Order::ZERO)),
            mark: AtomicU32::new(0),
            owner: AtomicU64::new(0),
            index: AtomicU64::new(0),
            private: [AtomicU64::new(0), AtomicU64::new(0)],
            next: AtomicU32::new(NIL),
            prev: AtomicU32::new(NIL),
        }
    }

    /// Returns the kind of the frame and the order of its block.
    #[inline]
    pub fn kind(&self) -> (FrameKind, Order) {
        // ORDERING: Relaxed. A thread that acts on the result holds the node's lock or a reference
        // (whose `try_get` synchronizes with the publication), or checks again with one of them.
        kind::unpack(self.word.load(Ordering::Relaxed))
    }

    #[inline]
    pub(crate) fn set_kind(&self, kind: FrameKind, order: Order) {
        // ORDERING: Relaxed. The caller has exclusive access (see `FrameKind`). Publishing the
        // count, or releasing the lock, also publishes this store.
        self.word.store(kind::pack(kind, order), Ordering::Relaxed);
    }

    /// Returns the owner of the frame, and the frame's position in it.
    pub fn owner(&self) -> (u64, u64) {
        // ORDERING: Relaxed; a caller with a reference has synchronized with the publication.
        // Without one, the result is a hint, and may be a mixture of two owners.
        (
            self.owner.load(Ordering::Relaxed),
            self.index.load(Ordering::Relaxed),
        )
    }

    pub(crate) fn set_owner(&self, owner: u64, index: u64) {
        // ORDERING: Relaxed; publishing the count also publishes these stores.
        self.owner.store(owner, Ordering::Relaxed);
        self.index.store(index, Ordering::Relaxed);
    }

    /// Returns the two words of [`UniqueFrame::publish_with`](crate::UniqueFrame::publish_with).
    pub fn private(&self) -> [u64; 2] {
        // ORDERING: Relaxed; only the holder of a reference uses the words, as in `kind`.
        [
            self.private[0].load(Ordering::Relaxed),
            self.private[1].load(Ordering::Relaxed),
        ]
    }

    pub(crate) fn set_private(&self, words: [u64; 2]) {
        // ORDERING: Relaxed; publishing the count also publishes these stores.
        self.private[0].store(words[0], Ordering::Relaxed);
        self.private[1].store(words[1], Ordering::Relaxed);
    }

    /// Returns the first of the owner's two words, which may change while references exist.
    ///
    /// # Safety
    ///
    /// (W) The caller stores to the word only while the frame keeps its kind, and only values that
    /// the protocol of that kind allows. Loads are always allowed.
    pub unsafe fn state(&self) -> &AtomicU64 {
        &self.private[0]
    }

    /// Returns the number of references, or 0 if the count is locked. A hint without ordering.
    pub fn count(&self) -> u32 {
        self.refs.count()
    }

    /// Returns `true` if there is one reference, under the conditions of
    /// [`RefCount::has_one_reference`](crate::refcount::RefCount::has_one_reference).
    pub fn has_one_reference(&self) -> bool {
        self.refs.has_one_reference()
    }
}

pub(crate) fn new_table(nr_frames: usize) -> Result<Box<[FrameMeta]>, PoolError> {
    let mut table = Vec::new();
    table
        .try_reserve_exact(nr_frames)
        .map_err(|_| PoolError::Memory {
            bytes: nr_frames.saturating_mul(size_of::<FrameMeta>()),
            source: std::io::ErrorKind::OutOfMemory.into(),
        })?;
    table.extend((0..nr_frames).map(|_| FrameMeta::new()));
    Ok(table.into_boxed_slice())
}

pub(crate) type MetaTable = [FrameMeta];

#[inline]
pub(crate) fn of(table: &MetaTable, frame: FrameNr) -> &FrameMeta {
    &table[frame.index()]
}

/// Not protected: references are counted.
pub(crate) const NONE: u32 = 0;
/// Protected: references may be published.
pub(crate) const ON: u32 = 1;
/// Closed: new references are counted, and hazards that were published before remain valid.
pub(crate) const CLOSED: u32 = 2;

/// Hazard protection. The module `announce` changes it; E1, E4 and I2 are there.
impl FrameMeta {
    /// Returns `true` if the protection is on: reliable only after the caller's publication (E1).
    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        // ORDERING: Acquire, E4. Orders this load before the caller's check of the index slot, too.
        self.mark.load(Ordering::Acquire) == ON
    }

    /// Returns `true` if the count includes the protection reference, even if no hazard exists now.
    /// A hint, except that the holder of the page's claim never misses a protection.
    #[inline]
    pub fn is_marked(&self) -> bool {
        // ORDERING: Relaxed; the page's claim, under which protections are set, begins with an
        // acquire and ends with a release. `retire` and the scan repeat the check under the lock.
        self.mark.load(Ordering::Relaxed) != NONE
    }

    /// Changes the protection, under the hazard lock.
    pub(crate) fn set_mark(&self, mark: u32) {
        // ORDERING: Release; E4 for `ON`. The heavy fence orders `CLOSED` (E1).
        self.mark.store(mark, Ordering::Release);
    }

    pub(crate) fn mark(&self) -> u32 {
        // ORDERING: Relaxed; the lock orders all changes (I2).
        self.mark.load(Ordering::Relaxed)
    }
}
