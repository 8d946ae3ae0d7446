//! A full fence for two sides, one of which runs far more often than the other.
//!
//! What. Store buffering (each side stores, then loads what the other stores) is excluded by a full
//! fence on both sides. Here the frequent side calls [`Fences::light`] and the rare side
//! [`Fences::heavy`], and the rare side pays for both: `membarrier(2)` makes every running thread of
//! the process pass a full barrier between the call's start and its end, and a thread that is not
//! running has passed one when it was switched out. The light fence only has to keep the compiler from
//! moving the store behind the load.
//!
//! ```text
//! frequent side          rare side
//! store A                store B
//! light()                heavy()
//! load B                 load A          at least one of them sees the other's store
//! ```
//!
//! Where the system has no such call, both are `SeqCst` fences. Under loom they always are.
//!
//! Proved by: the models of [`crate::per_thread`], whose twin without the light fence fails.
//!
//! Source: membarrier(2), `MEMBARRIER_CMD_PRIVATE_EXPEDITED`; Goldblatt, "Asymmetric fences", WG21
//! P1202.

#![allow(unsafe_code)] // One system call.

use crate::atomic::{Ordering, fence};

/// Which fences this process can use; all users of one pair of locations must use the same.
#[derive(Clone, Copy, Debug)]
pub struct Fences {
    has_membarrier: bool,
}

/// The heavy fence failed: the system refused the call that it had granted before (a
/// sandbox was set up since, say).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

impl Fences {
    /// Asks the system for `membarrier(2)`, and registers the process for it.
    pub fn new() -> Self {
        Self {
            has_membarrier: imp::register(),
        }
    }

    /// Only full fences, for systems without `membarrier(2)`, and for tests of that case.
    pub fn symmetric() -> Self {
        Self {
            has_membarrier: false,
        }
    }

    /// Whether the rare side pays for both, so that the frequent side's fence costs nothing.
    pub fn is_asymmetric(self) -> bool {
        self.has_membarrier
    }

    /// The frequent side's fence.
    #[inline]
    pub fn light(self) {
        if self.has_membarrier {
            // ORDERING: keeps the compiler from reordering across it; a thread that calls `heavy` makes the
            // processor pass a full barrier.
            std::sync::atomic::compiler_fence(Ordering::SeqCst);
        } else {
            // ORDERING: SeqCst; the partner is the fence of `heavy`.
            fence(Ordering::SeqCst);
        }
    }

    /// The rare side's fence: some microseconds.
    ///
    /// # Errors
    ///
    /// [`Refused`]: nothing is ordered, and the caller must do without the other side's data.
    pub fn heavy(self) -> Result<(), Refused> {
        // ORDERING: SeqCst; orders this thread's own accesses, and is the partner of `light` where `light`
        // is a fence too.
        fence(Ordering::SeqCst);
        if self.has_membarrier {
            imp::barrier()?;
        }
        Ok(())
    }
}

impl Default for Fences {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(target_os = "linux", not(loom)))]
mod imp {
    use super::Refused;

    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: the call takes numbers only.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    pub(super) fn register() -> bool {
        membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
    }

    pub(super) fn barrier() -> Result<(), Refused> {
        if membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
            Ok(())
        } else {
            Err(Refused)
        }
    }
}

#[cfg(not(all(target_os = "linux", not(loom))))]
mod imp {
    use super::Refused;

    pub(super) fn register() -> bool {
        false
    }

    pub(super) fn barrier() -> Result<(), Refused> {
        Ok(())
    }
}
