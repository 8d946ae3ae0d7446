//! Asymmetric fence: a full fence for a frequent and a rare side.
//!
//! Full fences on both sides exclude store buffering (each side stores, then loads what the other
//! side stores). Here the frequent side calls [`Fences::light`], the rare side [`Fences::heavy`],
//! and the rare side bears the cost of both. During `membarrier(2)` every running thread of the
//! process executes a full barrier. A thread that is not running executed one when it was
//! descheduled. The light fence only keeps the compiler from moving the store past the load.
//!
//! ```text
//! frequent side          rare side
//! store A                store B
//! light()                heavy()
//! load B                 load A          at least one of them sees the other's store
//! ```
//!
//! Without `membarrier(2)`, and always under loom, both are `SeqCst` fences.
//!
//! Verified by the models of [`crate::per_thread`], whose twin without the light fence fails.
//!
//! Source: membarrier(2), `MEMBARRIER_CMD_PRIVATE_EXPEDITED`; Goldblatt, "Asymmetric fences", WG21
//! P1202.

#![allow(unsafe_code)] // One system call.

use crate::atomic::{Ordering, fence};

/// Fences available to this process. All users of one pair of locations must use the same.
#[derive(Clone, Copy, Debug)]
pub struct Fences {
    has_membarrier: bool,
}

/// Error of [`Fences::heavy`]: the system refused a call that it had granted before, for example
/// because a sandbox was set up since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

impl Fences {
    /// Probes for `membarrier(2)` and registers the process for it.
    pub fn new() -> Self {
        Self {
            has_membarrier: imp::register(),
        }
    }

    /// Uses full fences only: for systems without `membarrier(2)`, and for tests of that case.
    pub fn symmetric() -> Self {
        Self {
            has_membarrier: false,
        }
    }

    /// Whether the rare side bears the cost, so that the light fence emits no instruction.
    pub fn is_asymmetric(self) -> bool {
        self.has_membarrier
    }

    /// Fence of the frequent side.
    #[inline]
    pub fn light(self) {
        if self.has_membarrier {
            // ORDERING: restrains the compiler; `heavy` executes a full barrier on this processor.
            std::sync::atomic::compiler_fence(Ordering::SeqCst);
        } else {
            // ORDERING: SeqCst; pairs with the fence of `heavy`.
            fence(Ordering::SeqCst);
        }
    }

    /// Fence of the rare side. Takes some microseconds with `membarrier(2)`.
    ///
    /// # Errors
    ///
    /// [`Refused`]: nothing is ordered, so the caller must not access the other side's data.
    pub fn heavy(self) -> Result<(), Refused> {
        // ORDERING: SeqCst; orders this thread's accesses, and pairs with `light` if that is a
        // fence.
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
