//! The process that made a cache, and no other.
//!
//! A child made by `fork` has a copy of the cache's memory as it was at that moment, and shares the open files. Whatever
//! another thread was changing then stays half changed: a claim is never ended, a lock never let go. And what the
//! child would write to the storage would be mixed with what the parent writes. So everything but a hit fails in the
//! child. (A hit copies bytes from the child's own copy of the memory, and checks that they were whole.)
//!
//! The mark is a word in a page that the system empties in the child, so that looking at it is a load, and right for
//! grandchildren too, whose process number may be any. Where the system cannot do that, the number of the
//! process is compared, which is a system call.

#![allow(unsafe_code)] // A mapping of its own.

use crate::base::error::{Error, ErrorKind, Op};

#[cfg(not(loom))]
mod imp {
    use std::ptr::NonNull;

    use pagewell_sync::atomic::{AtomicU64, Ordering};

    /// The word while the process is the one that stored it.
    const AT_HOME: u64 = 1;

    /// The process that made a cache.
    #[derive(Debug)]
    pub(crate) struct Home {
        mark: Option<Mark>,
        process: u32,
    }

    impl Home {
        /// This process.
        pub(crate) fn here() -> Self {
            Self {
                mark: Mark::new(),
                process: std::process::id(),
            }
        }

        /// Whether this process is the one.
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

    /// A page of memory that is empty in children.
    #[derive(Debug)]
    struct Mark {
        start: NonNull<AtomicU64>,
        bytes: usize,
    }

    // SAFETY: an atomic that this value owns.
    unsafe impl Send for Mark {}
    // SAFETY: as above.
    unsafe impl Sync for Mark {}

    impl Mark {
        /// None where the system cannot do it.
        fn new() -> Option<Self> {
            let bytes = usize::try_from(crate::base::system::system_page_bytes()?).ok()?;
            // SAFETY: a new private anonymous mapping at an address of the kernel's choice touches no memory that
            // exists.
            let start = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    bytes,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                    -1,
                    0,
                )
            };
            if start == libc::MAP_FAILED {
                return None;
            }
            let mark = Self {
                start: NonNull::new(start.cast())?,
                bytes,
            };
            // SAFETY: the whole of our own mapping, of which only children are to see less.
            if unsafe { libc::madvise(start, bytes, libc::MADV_WIPEONFORK) } != 0 {
                return None;
            }
            // ORDERING: Relaxed; nobody else has the value yet.
            mark.word().store(AT_HOME, Ordering::Relaxed);
            Some(mark)
        }

        #[inline]
        fn word(&self) -> &AtomicU64 {
            // SAFETY: mapped, aligned to a page, zeros or what was stored, and unmapped when dropped.
            unsafe { self.start.as_ref() }
        }
    }

    impl Drop for Mark {
        fn drop(&mut self) {
            // SAFETY: the mapping that `new` made; nothing borrows from it any more.
            let _ = unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
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
    pub(crate) fn check(&self, op: Op) -> Result<(), Error> {
        if self.is_here() {
            return Ok(());
        }
        Err(self.forked(op))
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
