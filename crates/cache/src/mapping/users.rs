//! Strong and weak references to a file, counted in one word (`files::opened`).

use pagewell_sync::atomic::{AtomicU64, Ordering};

/// One weak reference in the word. Strong references are counted in the bits below.
const VISITOR: u64 = 1 << 32;

/// Number of strong references at which another one aborts the process. The count overflows only if
/// 3 * 2^30 more threads are between their increment and the check.
const MAX_SHARES: u64 = 1 << 30;

/// Counts of strong and weak references. They outlive the mapping: the holder of a weak reference
/// drops its `Arc` of the mapping before it decrements the count.
#[derive(Debug, Default)]
pub(crate) struct Users(AtomicU64);

impl Users {
    /// Counts a strong reference. Returns `true` if it is the only one and weak references exist:
    /// the caller then wakes the thread that may be waiting at step 2 of `files::opened`.
    ///
    /// Aborts the process if [`MAX_SHARES`] exist, as the clone of an `Arc` does, so fewer than
    /// 2^31 exist. Only a program that leaks handles reaches this number.
    #[must_use]
    pub(crate) fn add_share(&self) -> bool {
        // ORDERING: Acquire; pairs with the release in `remove_share`: operations with strong
        // references dropped before happen before those with this one (`dirty::service`).
        let before = self.0.fetch_add(1, Ordering::Acquire);
        if before % VISITOR >= MAX_SHARES {
            // After a panic that the program catches, the count would stay too high.
            std::process::abort();
        }
        before != 0 && before.is_multiple_of(VISITOR)
    }

    /// Returns `true` if the strong reference was the last one.
    pub(crate) fn remove_share(&self) -> bool {
        // ORDERING: Release; operations with the reference happen before the file is closed: the
        // thread that closes it is ordered by the count of the mapping's `Arc`.
        let before = self.0.fetch_sub(1, Ordering::Release);
        before % VISITOR == 1
    }

    /// Uncounts a strong reference. Returns `false`, without uncounting, if it is the last one.
    pub(crate) fn remove_share_unless_last(&self) -> bool {
        let remove = |users: u64| (users % VISITOR != 1).then(|| users - 1);
        // ORDERING: Release, as in `remove_share`.
        self.0
            .fetch_update(Ordering::Release, Ordering::Relaxed, remove)
            .is_ok()
    }

    /// Counts a weak reference. Returns `false`, without counting, if there is no strong reference.
    pub(crate) fn enter(&self) -> bool {
        let enter = |users: u64| (!users.is_multiple_of(VISITOR)).then(|| users + VISITOR);
        // ORDERING: Relaxed; by atomicity, the thread that removes the last strong reference sees
        // this weak one, and acquires its `leave` before it drops the mapping. So the holder
        // increments the count of the mapping's `Arc` while that is not zero.
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, enter)
            .is_ok()
    }

    /// Returns `true` if no reference of either kind is left. The caller then wakes the thread that
    /// dropped the last strong one.
    pub(crate) fn leave(&self) -> bool {
        // ORDERING: Release; pairs with the acquire in `is_visited_only`; the mapping was dropped.
        let before = self.0.fetch_sub(VISITOR, Ordering::Release);
        before == VISITOR
    }

    pub(crate) fn is_visited_only(&self) -> bool {
        // ORDERING: Acquire; pairs with the release in `leave`.
        let users = self.0.load(Ordering::Acquire);
        users != 0 && users.is_multiple_of(VISITOR)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn a_strong_reference_beyond_the_limit_aborts() {
        let users = Users(AtomicU64::new(VISITOR + MAX_SHARES - 1));
        assert!(!users.add_share());
        const CHILD: &str = "PAGEWELL_TEST_ABORT";
        if std::env::var_os(CHILD).is_some() {
            let _ = users.add_share();
            return;
        }
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "mapping::users::tests::a_strong_reference_beyond_the_limit_aborts",
            ])
            .env(CHILD, "1")
            .output()
            .unwrap();
        assert_eq!(child.status.signal(), Some(libc::SIGABRT), "{child:?}");
    }
}
