//! A file's shares and visitors, counted in one word. Their purpose and the protocol are in `files::opened`.

use pagewell_sync::atomic::{AtomicU64, Ordering};

/// One visitor, in the word; shares are counted below it.
const VISITOR: u64 = 1 << 32;

/// How many shares and visitors a file has. It outlives the mapping: a visitor first lets go of the mapping, and then leaves.
#[derive(Debug, Default)]
pub(crate) struct Users(AtomicU64);

impl Users {
    /// Counts a share; whether a thread may be waiting at 2 that need not wait any more.
    #[must_use]
    pub(crate) fn add_share(&self) -> bool {
        // ORDERING: Acquire; pairs with the release in `remove_share`: what was done with earlier shares comes before what is done
        // with this one (`dirty::attendance`).
        let before = self.0.fetch_add(1, Ordering::Acquire);
        before != 0 && before.is_multiple_of(VISITOR)
    }

    /// Counts a share no more; whether it was the last one.
    pub(crate) fn remove_share(&self) -> bool {
        // ORDERING: Release; the work done with the share comes before the closing of the file. The mapping's own
        // count orders the thread that closes it.
        let before = self.0.fetch_sub(1, Ordering::Release);
        before % VISITOR == 1
    }

    /// Counts a share no more, unless it is the last one; whether it was not.
    pub(crate) fn remove_share_unless_last(&self) -> bool {
        let remove = |users: u64| (users % VISITOR != 1).then(|| users - 1);
        // The loop ends with the first exchange that succeeds: no other one came before it.
        // ORDERING: Release, as in `remove_share`.
        self.0
            .fetch_update(Ordering::Release, Ordering::Relaxed, remove)
            .is_ok()
    }

    /// Counts a visitor, unless there is no share.
    pub(crate) fn enter(&self) -> bool {
        let enter = |users: u64| (!users.is_multiple_of(VISITOR)).then(|| users + VISITOR);
        // The loop ends with the first exchange that succeeds: no other one came before it.
        // ORDERING: Relaxed; by atomicity, a thread that removes the last share later sees us counted. So the mapping's count
        // is not zero when the visitor takes part in it: that happens before we leave, which is acquired before the last
        // share lets go.
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, enter)
            .is_ok()
    }

    /// Counts a visitor no more; whether a thread may be waiting for that.
    pub(crate) fn leave(&self) -> bool {
        // ORDERING: Release; pairs with the acquire in `is_visited_only`: the visitor has let go of the mapping.
        let before = self.0.fetch_sub(VISITOR, Ordering::Release);
        before == VISITOR
    }

    /// Whether there are visitors, and no share.
    pub(crate) fn is_visited_only(&self) -> bool {
        // ORDERING: Acquire; pairs with the release in `leave`.
        let users = self.0.load(Ordering::Acquire);
        users != 0 && users.is_multiple_of(VISITOR)
    }
}
