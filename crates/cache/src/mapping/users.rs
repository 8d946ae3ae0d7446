//! Strong and weak references to a file, counted in one word. `files::opened` describes their
//! purpose and the protocol.

use pagewell_sync::atomic::{AtomicU64, Ordering};

/// One weak reference in the word. Strong references are counted in the bits below.
const VISITOR: u64 = 1 << 32;

/// Counts of strong and weak references to a file. The value outlives the mapping: the holder of a
/// weak reference drops the `Arc` of the mapping, and only then decrements the count.
#[derive(Debug, Default)]
pub(crate) struct Users(AtomicU64);

impl Users {
    /// Counts a strong reference. Returns `true` if this is the only strong reference and weak
    /// references exist. The thread that dropped the previous last strong reference may then be
    /// waiting at step 2 of the protocol; the caller wakes it, since it need not wait any more.
    #[must_use]
    pub(crate) fn add_share(&self) -> bool {
        // ORDERING: Acquire; pairs with the release in `remove_share`: operations with strong
        // references dropped before happen before those with this one (`dirty::attendance`).
        let before = self.0.fetch_add(1, Ordering::Acquire);
        before != 0 && before.is_multiple_of(VISITOR)
    }

    /// Decrements the number of strong references. Returns `true` if the reference was the last
    /// one.
    pub(crate) fn remove_share(&self) -> bool {
        // ORDERING: Release; operations with the reference happen before the file is closed: the
        // thread that closes it is ordered by the count of the mapping's `Arc`.
        let before = self.0.fetch_sub(1, Ordering::Release);
        before % VISITOR == 1
    }

    /// Decrements the number of strong references unless it is one. Returns `true` if it was
    /// decremented.
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
        // ORDERING: Relaxed; by atomicity, a thread that later removes the last strong reference
        // sees this weak one, and does not drop the mapping before `leave`. So the count of the
        // mapping's `Arc` is not zero when the holder of the weak reference increments it: the
        // increment happens before `leave`, which that thread acquires before it drops the mapping.
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, enter)
            .is_ok()
    }

    /// Decrements the number of weak references. Returns `true` if no reference of either kind is
    /// left. The thread that dropped the last strong reference may then be waiting, and the caller
    /// must wake it.
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
