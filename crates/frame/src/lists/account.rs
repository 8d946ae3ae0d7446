//! Statistics of a pool's frames, and consistency checks.

use pagewell_sync::lock;

use super::free_lists::FreeLists;
use crate::words::{FrameKind, FrameNr, Order};

/// Numbers of frames by state, counted at slightly different times if other threads use the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStats {
    /// Number of frames of the pool: the sum of the others, if they were counted at one time.
    pub nr_frames: usize,
    /// Number of frames on the free lists of their nodes.
    pub nr_free: usize,
    /// Number of free frames in thread caches and transfer caches.
    pub nr_cached: usize,
    /// Number of allocated frames.
    pub nr_allocated: usize,
}

impl PoolStats {
    /// Returns the number of frames that can be allocated.
    pub fn nr_available(&self) -> usize {
        self.nr_free + self.nr_cached
    }
}

/// Free blocks on the lists of a pool's nodes, by order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeBlocks {
    nr: [usize; Order::COUNT],
}

impl FreeBlocks {
    /// Returns the number of free blocks of `order`.
    pub fn of_order(&self, order: Order) -> usize {
        self.nr[order.index()]
    }

    /// Returns the fraction of the free frames that are in blocks of `order` or larger, or `None`
    /// if no frame is free. 1 minus this fraction is the "unusable free space index" (Gorman).
    pub fn share_from(&self, order: Order) -> Option<f64> {
        let frames = |orders: std::ops::Range<usize>| -> usize {
            orders.map(|order| self.nr[order] << order).sum()
        };
        let all = frames(0..Order::COUNT);
        (all > 0).then(|| frames(order.index()..Order::COUNT) as f64 / all as f64)
    }
}

impl FreeLists {
    pub(crate) fn stats(&self) -> PoolStats {
        // Count within one scan of the thread caches, so that no block moves and is counted twice.
        let (nr_cached, nr_free) = self.fronts.with_all(|fronts, _| {
            let cached: usize = fronts.iter().map(|front| front.nr_frames()).sum();
            let nodes = self.nodes.iter().map(|node| {
                let buddy = lock(&node.buddy);
                (buddy.depot.len(), buddy.nr_free())
            });
            nodes.fold((cached, 0), |(cached, free), (in_depot, in_lists)| {
                (cached + in_depot, free + in_lists)
            })
        });
        let elsewhere = nr_free + nr_cached;
        PoolStats {
            nr_frames: self.nr_frames(),
            nr_free,
            nr_cached,
            nr_allocated: self.nr_frames().saturating_sub(elsewhere),
        }
    }

    pub(crate) fn free_blocks(&self) -> FreeBlocks {
        let mut nr = [0; Order::COUNT];
        for node in &self.nodes {
            let of_node = lock(&node.buddy).nr_blocks();
            for (sum, one) in nr.iter_mut().zip(of_node) {
                *sum += one;
            }
        }
        FreeBlocks { nr }
    }

    /// Checks the pool, which no other thread may use.
    pub(crate) fn verify(&self) -> Result<(), String> {
        for node in &self.nodes {
            lock(&node.buddy).verify(&self.table)?;
        }
        self.verify_fronts()?;
        let counted = self.count_by_kind()?;
        let stats = self.stats();
        if counted != stats {
            return Err(format!(
                "lists and counters have {stats:?}, frames have {counted:?}"
            ));
        }
        Ok(())
    }

    fn verify_fronts(&self) -> Result<(), String> {
        self.fronts.with_all(|fronts, _| {
            for front in fronts {
                for (frame, order) in front.iter() {
                    self.verify_cached(frame, order)?;
                }
            }
            for node in &self.nodes {
                for frame in lock(&node.buddy).depot.iter() {
                    self.verify_cached(frame, Order::ZERO)?;
                }
            }
            Ok(())
        })
    }

    fn verify_cached(&self, frame: FrameNr, order: Order) -> Result<(), String> {
        let record = self.meta(frame);
        if record.kind() != (FrameKind::Front, order) {
            return Err(format!(
                "{frame:?} in a cache of order {} has record {record:?}",
                order.get()
            ));
        }
        self.verify_locked(frame, order)
    }

    fn verify_locked(&self, head: FrameNr, order: Order) -> Result<(), String> {
        for nr in head.get()..head.get() + order.frames() {
            let record = self.meta(FrameNr::new(nr));
            if !record.refs.is_locked() {
                return Err(format!(
                    "frame {nr} in the block at {head:?} lacks the lock bit: {record:?}"
                ));
            }
        }
        Ok(())
    }

    fn count_by_kind(&self) -> Result<PoolStats, String> {
        let mut counted = PoolStats {
            nr_frames: self.nr_frames(),
            nr_free: 0,
            nr_cached: 0,
            nr_allocated: 0,
        };
        let mut nr = 0;
        while nr < self.nr_frames() {
            let head = FrameNr::new(nr as u32);
            let record = self.meta(head);
            let (kind, order) = record.kind();
            let len = order.frames() as usize;
            if !self.may_be_block(head, order) {
                return Err(format!(
                    "the block of {len} frames at frame {nr} is misplaced"
                ));
            }
            match kind {
                FrameKind::Tail => return Err(format!("frame {nr} is a tail without a head")),
                FrameKind::Free => counted.nr_free += len,
                FrameKind::Front => counted.nr_cached += len,
                FrameKind::Owned
                | FrameKind::Page
                | FrameKind::Leaf
                | FrameKind::Anon
                | FrameKind::Table => counted.nr_allocated += len,
                FrameKind::Raw => {
                    if record.count() == 0 {
                        return Err(format!("frame {nr} is allocated without references"));
                    }
                    counted.nr_allocated += len;
                }
            }
            for tail in nr + 1..nr + len {
                if !self.table[tail].refs.is_locked() {
                    return Err(format!("frame {tail}, a tail of {nr}, lacks the lock bit"));
                }
            }
            nr += len;
        }
        Ok(counted)
    }
}
