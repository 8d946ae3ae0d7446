//! Which process this is. A child made by `fork` has the connections of its parent, their memory as it was, and their open files; what it did with them would mix with
//! what the parent does. So a connection is of the process that has opened it; in others it fails before SQLite has written anything to a log or a journal.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use pagewell_sync::wiped::WipedOnFork;

use crate::abi;
use crate::error::Failure;

/// A process, among those of which it is a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u64);

/// The number of this process; children find it empty. None where the system cannot do that.
static NUMBER: LazyLock<Option<WipedOnFork>> = LazyLock::new(WipedOnFork::new);

/// The number that was given last. Children inherit it, so theirs are others.
static LAST: AtomicU64 = AtomicU64::new(0);

impl Process {
    /// This one.
    #[inline]
    pub(crate) fn this() -> Self {
        let Some(number) = NUMBER.as_ref() else {
            return Self(std::process::id().into());
        };
        let word = number.word();
        // ORDERING: Relaxed, here and below; a number is all that there is, and every thread of a process gets the same.
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

    /// Fails in any other.
    #[inline]
    pub(crate) fn check(self) -> Result<(), Failure> {
        if self == Self::this() {
            return Ok(());
        }
        Err(Failure::new(
            abi::IOERR,
            "the connection is of the process of which this one is a child",
        ))
    }
}
