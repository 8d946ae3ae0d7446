//! Strong and weak references to a file, counted in one word. `files::opened` describes their
//! purpose and the protocol.

use pagewell_sync::atomic::{AtomicU64, Ordering};

/// One weak reference in the word. Strong references are counted in the bits below.
const VISITOR: u64 = 1 << 32;

/// Counts of strong and weak references to a file. The value outlives the mapping: a weak reference
/// first drops the mapping, and is then uncounted.
#[derive(Debug, Default)]
pub(crate) struct Users(AtomicU64);

impl Users {
    /// Counts a strong reference. Returns whether a thread may be waiting at step 2 of the protocol
    /// that need not wait any more.
    #[must_use]
    pub(crate) fn add_share(&self) -> bool {
        // ORDERING: Acquire; pairs with the release in `remove_share`: operations with earlier
        // strong references come before those with this one (`dirty::attendance`).
        let before = self.0.fetch_add(1, Ordering::Acquire);
        before != 0 && before.is_multiple_of(VISITOR)
    }

    /// Uncounts a strong reference. Returns whether it was the last one.
    pub(crate) fn remove_share(&self) -> bool {
        // ORDERING: Release; the work done with the reference comes before the closing of the file.
        // The mapping's own count orders the thread that closes it.
        let before = self.0.fetch_sub(1, Ordering::Release);
        before % VISITOR == 1
    }

    /// Uncounts a strong reference unless it is the last one. Returns whether it was uncounted.
    pub(crate) fn remove_share_unless_last(&self) -> bool {
        let remove = |users: u64| (users % VISITOR != 1).then(|| users - 1);
        // The loop ends with the first exchange that succeeds.
        // ORDERING: Release, as in `remove_share`.
        self.0
            .fetch_update(Ordering::Release, Ordering::Relaxed, remove)
            .is_ok()
    }

    /// Counts a weak reference. Returns `false`, without counting, if there is no strong reference.
    pub(crate) fn enter(&self) -> bool {
        let enter = |users: u64| (!users.is_multiple_of(VISITOR)).then(|| users + VISITOR);
        // The loop ends with the first exchange that succeeds.
        // ORDERING: Relaxed; by atomicity, a thread that removes the last strong reference later
        // sees this weak one. So the mapping's count is not zero when the weak reference increments
        // it: that happens before `leave`, which the thread with the last strong reference acquires
        // before it drops the mapping.
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, enter)
            .is_ok()
    }

    /// Uncounts a weak reference. Returns whether a thread may be waiting for that.
    pub(crate) fn leave(&self) -> bool {
        // ORDERING: Release; pairs with the acquire in `is_visited_only`: the weak reference has
        // dropped the mapping.
        let before = self.0.fetch_sub(VISITOR, Ordering::Release);
        before == VISITOR
    }

    /// Whether there are weak references and no strong one.
    pub(crate) fn is_visited_only(&self) -> bool {
        // ORDERING: Acquire; pairs with the release in `leave`.
        let users = self.0.load(Ordering::Acquire);
        users != 0 && users.is_multiple_of(VISITOR)
    }
}
