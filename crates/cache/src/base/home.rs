//! The process that made a cache, and no other.
//!
//! A child made by `fork` has a copy of the cache's memory as it was at that moment, and shares the open files. If another
//! thread was changing something then, it stays half changed: a claim is never ended, a lock never released. And the
//! child's writes to the storage would mix with those of the parent. So everything but a hit fails in the
//! child. (A hit copies bytes from the child's own copy of the memory, and checks that they were whole.)
//!
//! The mark is a word in a page that the system empties in the child. So a check is a load, and is right for
//! grandchildren too, whose process number may be any. Where the system cannot do that, the check compares the number of the
//! process, which takes a system call.

use crate::base::error::{Error, ErrorKind, Op};
use crate::base::page_hooks::is_in_page_hook;

#[cfg(not(loom))]
mod imp {
    use pagewell_sync::atomic::Ordering;
    use pagewell_sync::wiped::WipedOnFork;

    /// The word while the process is the one that stored it.
    const AT_HOME: u64 = 1;

    /// The process that made a cache.
    #[derive(Debug)]
    pub(crate) struct Home {
        mark: Option<WipedOnFork>,
        process: u32,
    }

    impl Home {
        /// This process.
        pub(crate) fn here() -> Self {
            let mark = WipedOnFork::new();
            if let Some(mark) = &mark {
                // ORDERING: Relaxed; nobody else has the value yet.
                mark.word().store(AT_HOME, Ordering::Relaxed);
            }
            Self {
                mark,
                process: std::process::id(),
            }
        }

        /// Whether this is the same process.
        #[inline]
        pub(crate) fn is_here(&self) -> bool {
            match &self.mark {
                // ORDERING: Relaxed; stored before the value was shared, and emptied by the system before the child
                // runs at all.
                Some(mark) => mark.word().load(Ordering::Relaxed) == AT_HOME,
                None => std::process::id() == self.process,
            }
        }

        /// The process's number.
        pub(crate) fn process(&self) -> u32 {
            self.process
        }
    }
}

#[cfg(loom)]
mod imp {
    /// The process that made a cache: in a model, the only one.
    #[derive(Debug)]
    pub(crate) struct Home;

    impl Home {
        pub(crate) fn here() -> Self {
            Self
        }

        pub(crate) fn is_here(&self) -> bool {
            true
        }

        pub(crate) fn process(&self) -> u32 {
            0
        }
    }
}

pub(crate) use imp::Home;

impl Home {
    /// An error where this process is not the one that made the cache, but a child of it.
    #[inline]
    pub(crate) fn check_process(&self, op: Op) -> Result<(), Error> {
        if self.is_here() {
            return Ok(());
        }
        Err(self.forked(op))
    }

    /// As [`check_process`](Self::check_process), for a call that may wait: an error too where this thread is in a hook on the bytes of a page.
    #[inline]
    pub(crate) fn check(&self, op: Op) -> Result<(), Error> {
        self.check_process(op)?;
        check_may_wait(op)
    }

    #[cold]
    fn forked(&self, op: Op) -> Error {
        Error::new(ErrorKind::Forked, op).with_detail(format!(
            "process {}; made by process {}",
            std::process::id(),
            self.process()
        ))
    }
}

/// An error where this thread is in a hook on the bytes of a page: others wait for that page, so the hook must wait for nothing.
///
/// # Errors
///
/// [`Deadlock`](ErrorKind::Deadlock).
#[inline]
pub(crate) fn check_may_wait(op: Op) -> Result<(), Error> {
    if is_in_page_hook() {
        return Err(in_page_hook(op));
    }
    Ok(())
}

#[cold]
fn in_page_hook(op: Op) -> Error {
    Error::new(ErrorKind::Deadlock, op).with_detail("which is in a hook on the bytes of a page")
}
