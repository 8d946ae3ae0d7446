//! The metadata record of a frame.

#![allow(unsafe_code)] // The owner's word, which it takes a duty to store to.

use pagewell_sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::count::{RefCount, RefScheme};
use crate::memory::PoolError;
use crate::words::kind::{self, FrameKind};
use crate::words::{FrameNr, Order};

/// What the pool knows of one frame: 64 bytes, so that two hot frames never share a cache line.
///
/// The records of a pool are one array, so that contiguous frames have contiguous records. A record
/// lives as long as its pool; a stale frame number therefore always names a readable record.
#[derive(Debug)]
#[cfg_attr(not(loom), repr(C, align(64)))]
pub struct FrameMeta<S: RefScheme> {
    /// The reference count. Anyone may try to take a reference at any time; it fails while the frame
    /// is free, frozen, or the tail of a block.
    pub(crate) refs: RefCount<S>,
    /// The typed word ([`FrameKind`] says who may change it). Anyone may read it; what it says is
    /// settled only for who holds a reference, the frozen count or the node's lock.
    word: AtomicU32,
    /// Whether references to the frame may be announced instead of counted, and then one counted reference stands for all of them:
    /// [`announce`](crate::announce) says who may change it, and who may believe it.
    pub(super) mark: AtomicU32,
    /// Whom the frame belongs to; the meaning is the owner's. Written by the holder of the
    /// [`UniqueFrame`](crate::UniqueFrame) before it publishes; settled while a reference is held.
    owner: AtomicU64,
    /// Where in its owner the frame belongs; as `owner`.
    index: AtomicU64,
    /// Two words of the owner's, whose meaning is the kind's; as `owner`.
    private: [AtomicU64; 2],
    /// Links of the node's free list; read and written by the holder of the node's lock.
    pub(crate) next: AtomicU32,
    pub(crate) prev: AtomicU32,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<FrameMeta<crate::count::LockBit>>() == 64);

/// No frame, in a link.
pub(crate) const NIL: u32 = u32::MAX;

impl<S: RefScheme> FrameMeta<S> {
    /// The record of a frame that was never allocated.
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

    /// What the frame is, and the order of its block.
    #[inline]
    pub fn kind(&self) -> (FrameKind, Order) {
        // ORDERING: Relaxed. Whoever acts on the answer holds a reference (acquired by `try_get`,
        // which synchronises with the publication that followed the change of kind), the node's lock,
        // or checks again after taking one of them.
        kind::unpack(self.word.load(Ordering::Relaxed))
    }

    #[inline]
    pub(crate) fn set_kind(&self, kind: FrameKind, order: Order) {
        // ORDERING: Relaxed. The frame is the caller's alone (see `FrameKind`); publishing the count,
        // or releasing the lock, publishes this store with it.
        self.word.store(kind::pack(kind, order), Ordering::Relaxed);
    }

    /// Whom the frame belongs to, and where in its owner.
    pub fn owner(&self) -> (u64, u64) {
        // ORDERING: Relaxed, as for `kind`. A caller without a reference may see a mixture of two
        // owners and must treat the answer as a hint.
        (
            self.owner.load(Ordering::Relaxed),
            self.index.load(Ordering::Relaxed),
        )
    }

    pub(crate) fn set_owner(&self, owner: u64, index: u64) {
        // ORDERING: Relaxed, as for `set_kind`.
        self.owner.store(owner, Ordering::Relaxed);
        self.index.store(index, Ordering::Relaxed);
    }

    /// The owner's two words, which [`UniqueFrame::publish_with`](crate::UniqueFrame::publish_with) has set.
    pub fn private(&self) -> [u64; 2] {
        // ORDERING: Relaxed, as for `kind`; meaningful only to who holds a reference.
        [
            self.private[0].load(Ordering::Relaxed),
            self.private[1].load(Ordering::Relaxed),
        ]
    }

    pub(crate) fn set_private(&self, words: [u64; 2]) {
        // ORDERING: Relaxed, as for `set_kind`.
        self.private[0].store(words[0], Ordering::Relaxed);
        self.private[1].store(words[1], Ordering::Relaxed);
    }

    /// The first of the owner's two words, which the owner may change while others hold references. Who only wants its value
    /// asks [`private`](Self::private).
    ///
    /// # Safety
    ///
    /// (W) The caller stores to the word only what the protocol of the frame's kind allows it to, at a moment when the frame
    /// is of that kind and stays it: who may do what is said where that protocol is. To load is always allowed.
    pub unsafe fn state(&self) -> &AtomicU64 {
        &self.private[0]
    }

    /// The number of references; 0 while the count is locked. A snapshot, for reports and tests.
    pub fn count(&self) -> u32 {
        self.refs.count()
    }
}

/// The records of `nr_frames` frames, all of them locked.
pub(crate) fn new_table<S: RefScheme>(nr_frames: usize) -> Result<Box<[FrameMeta<S>]>, PoolError> {
    let mut table = Vec::new();
    table
        .try_reserve_exact(nr_frames)
        .map_err(|_| PoolError::Memory {
            bytes: nr_frames.saturating_mul(size_of::<FrameMeta<S>>()),
            source: std::io::ErrorKind::OutOfMemory.into(),
        })?;
    table.extend((0..nr_frames).map(|_| FrameMeta::new()));
    Ok(table.into_boxed_slice())
}

/// The records of a pool's frames, by number.
pub(crate) type MetaTable<S> = [FrameMeta<S>];

/// The record of `frame`.
#[inline]
pub(crate) fn of<S: RefScheme>(table: &MetaTable<S>, frame: FrameNr) -> &FrameMeta<S> {
    &table[frame.index()]
}
