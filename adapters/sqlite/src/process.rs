//! Identity of this process. Accesses of a child of `fork` to the open files of its parent would
//! conflict with those of the parent. So the methods of a connection fail in all processes but the
//! one that opened it, usually before SQLite writes to a log or journal. But if the connection was
//! in a transaction or in `locking_mode=EXCLUSIVE` at the fork, SQLite has its locks already. It
//! may then write to a log or journal, a file of the Unix VFS, before it calls this VFS.

use std::sync::atomic::{AtomicU64, Ordering};

use pagewell_sync::raced::Raced;
use pagewell_sync::wiped::WipedOnFork;

use crate::abi;
use crate::error::Failure;

/// Identity of a process, distinct from that of every connection inherited from its ancestors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u64);

/// Number of this process, or 0 if none was assigned yet. The system zeroes it in a child of
/// `fork`. `None` if the system does not support that. Process ids then serve instead, although the
/// id of an ancestor that has ended may be reused.
static NUMBER: Raced<Option<WipedOnFork>> = Raced::new();

/// Last assigned number. A child of `fork` inherits it, and so assigns itself a number that no
/// inherited connection has. (A parent without a number at the fork may later get the same one.)
static LAST: AtomicU64 = AtomicU64::new(0);

impl Process {
    #[inline]
    pub(crate) fn this() -> Self {
        let Some(number) = NUMBER.get_or_make(WipedOnFork::new) else {
            return Self(std::process::id().into());
        };
        let word = number.word();
        // ORDERING: Relaxed, here and below; the number orders no other data, and the
        // compare-and-swap makes it the same for all threads.
        match word.load(Ordering::Relaxed) {
            0 => {
                // ORDERING: Relaxed, as above.
                let new = LAST.fetch_add(1, Ordering::Relaxed) + 1;
                // ORDERING: Relaxed, as above.
                match word.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => Self(new),
                    Err(others) => Self(others),
                }
            }
            number => Self(number),
        }
    }

    #[inline]
    pub(crate) fn check(self) -> Result<(), Failure> {
        if self == Self::this() {
            return Ok(());
        }
        Err(Failure::new(
            abi::IOERR,
            "cannot use the connection: a parent process opened it before a fork",
        ))
    }
}
