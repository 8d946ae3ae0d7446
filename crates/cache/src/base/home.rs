//! Check for the owning process: the process that created a cache, as opposed to its forks.
//!
//! A child made by `fork` has a copy of the cache's memory, and shares the open files. Changes that
//! other threads had begun stay incomplete in it: claims never end, locks stay held. Writes of the
//! child to the backend would mix with those of the parent. So in the child, operations fail,
//! except queries and hits of reads and views, which validate bytes of the child's own memory.
//!
//! The check loads a word in a page that the kernel zeroes in a child, so it also detects a
//! grandchild with the process id of the owning process. If the kernel cannot zero the page, the
//! check compares process ids, which takes a system call.

use crate::base::error::{Error, ErrorKind, Op};
use crate::base::page_hooks::is_in_page_hook;

#[cfg(not(loom))]
mod imp {
    use pagewell_sync::atomic::Ordering;
    use pagewell_sync::wiped::WipedOnFork;

    const AT_HOME: u64 = 1;

    #[derive(Debug)]
    pub(crate) struct Home {
        mark: Option<WipedOnFork>,
        process: u32,
    }

    impl Home {
        pub(crate) fn here() -> Self {
            let mark = WipedOnFork::new();
            if let Some(mark) = &mark {
                // ORDERING: Relaxed; no other thread has access to the value yet.
                mark.word().store(AT_HOME, Ordering::Relaxed);
            }
            Self {
                mark,
                process: std::process::id(),
            }
        }

        #[inline]
        pub(crate) fn is_here(&self) -> bool {
            match &self.mark {
                // ORDERING: Relaxed; stored before the value is shared, zeroed before a child runs.
                Some(mark) => mark.word().load(Ordering::Relaxed) == AT_HOME,
                None => std::process::id() == self.process,
            }
        }

        pub(crate) fn process(&self) -> u32 {
            self.process
        }
    }
}

#[cfg(loom)]
mod imp {
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
    #[inline]
    pub(crate) fn check_process(&self, op: Op) -> Result<(), Error> {
        if self.is_here() {
            return Ok(());
        }
        Err(self.forked(op))
    }

    /// As [`check_process`](Self::check_process), for a call that may wait ([`check_may_wait`]).
    #[inline]
    pub(crate) fn check(&self, op: Op) -> Result<(), Error> {
        self.check_process(op)?;
        check_may_wait(op)
    }

    #[cold]
    fn forked(&self, op: Op) -> Error {
        Error::new(ErrorKind::Forked, op).with_detail(format!(
            "this is process {}; process {} created the cache",
            std::process::id(),
            self.process()
        ))
    }
}

/// Returns [`Deadlock`](ErrorKind::Deadlock) if the calling thread is in a page codec: other
/// threads may be waiting for the page that the codec transforms.
#[inline]
pub(crate) fn check_may_wait(op: Op) -> Result<(), Error> {
    if is_in_page_hook() {
        return Err(in_page_hook(op));
    }
    Ok(())
}

#[cold]
fn in_page_hook(op: Op) -> Error {
    Error::new(ErrorKind::Deadlock, op).with_detail("the calling thread is in a page codec")
}
