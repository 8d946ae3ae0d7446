//! Who is told when a node has few frames left, and telling.

use std::fmt;
use std::sync::OnceLock;

use pagewell_sync::atomic::{AtomicU64, Ordering};

use crate::lists::Buddy;
use crate::words::MAX_NODES;

/// Whoever frees memory when little is left; see [`FramePool::set_low_memory`](crate::FramePool::set_low_memory).
pub trait LowMemory: Send + Sync {
    /// A node has fewer free frames than its `low` watermark.
    ///
    /// Called by the thread whose allocation made it so, with no lock of the pool held; to be quick, e.g. by
    /// waking another thread. Called again only after `high` frames were free; what is in front caches does not
    /// count.
    fn low(&self, node: usize);
}

impl fmt::Debug for dyn LowMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LowMemory")
    }
}

/// The nodes that have become low, and whoever is to be told.
pub(super) struct LowNodes {
    /// A bit for each node that fell below its low watermark, of which nobody was told yet.
    nodes: AtomicU64,
    low_memory: OnceLock<Box<dyn LowMemory>>,
}

impl LowNodes {
    /// None are low, and nobody is to be told.
    pub(super) fn new() -> Self {
        Self {
            nodes: AtomicU64::new(0),
            low_memory: OnceLock::new(),
        }
    }

    /// Registers whoever is to be told, of what has become low before too.
    ///
    /// # Errors
    ///
    /// The argument, when somebody is registered already.
    pub(super) fn register(
        &self,
        low_memory: Box<dyn LowMemory>,
    ) -> Result<(), Box<dyn LowMemory>> {
        self.low_memory.set(low_memory)?;
        self.tell();
        Ok(())
    }

    /// Remembers that somebody is to be told that a node has few frames left; called with its lock held.
    pub(super) fn note(&self, node: usize, buddy: &mut Buddy) {
        if buddy.has_become_low() {
            // ORDERING: Relaxed; it says that there is something to tell, which is looked for under no lock.
            self.nodes.fetch_or(1 << node, Ordering::Relaxed);
        }
    }

    /// Tells whoever is registered of the nodes that have few frames left; called with no lock held.
    pub(super) fn tell(&self) {
        // ORDERING: Relaxed, both; see `note`. The swap makes one thread tell.
        if self.nodes.load(Ordering::Relaxed) == 0 {
            return;
        }
        let Some(low_memory) = self.low_memory.get() else {
            return;
        };
        let low = self.nodes.swap(0, Ordering::Relaxed);
        for node in (0..MAX_NODES).filter(|node| low & (1 << node) != 0) {
            low_memory.low(node);
        }
    }
}
