//! Asymmetric fences: a light fence for a frequent operation, and a heavy fence for a rare one.
//!
//! If each side stores to its own location and then loads the other side's, store buffering can
//! make both loads miss the other side's store. Full fences between store and load on both sides
//! exclude this. Here the rare side bears the cost of both: `membarrier(2)` makes every running
//! thread of the process execute a full barrier (others did when they were descheduled). The light
//! fence only keeps the compiler from moving the store past the load.
//!
//! ```text
//! frequent side          rare side
//! store A                store B
//! light()                heavy()
//! load B                 load A          at least one of them sees the other's store
//! ```
//!
//! Without `membarrier(2)`, and always under loom, both functions are `SeqCst` fences. Verified by
//! the models of [`crate::per_thread`], which fail with the mutants that omit a fence.
//!
//! Source: `MEMBARRIER_CMD_PRIVATE_EXPEDITED`; Goldblatt, "Asymmetric fences", WG21 P1202.

#![allow(unsafe_code)] // One system call.

use crate::atomic::{Ordering, fence};

/// The kind of fences that this process uses. All threads that access one pair of locations must
/// use copies of the same value: fences of different kinds could order nothing.
#[derive(Clone, Copy, Debug)]
pub struct Fences {
    has_membarrier: bool,
}

/// Error of [`Fences::heavy`]: the system refuses `membarrier(2)` although the registration
/// succeeded, for example because a sandbox was set up afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

impl Fences {
    /// Probes for `membarrier(2)` and registers the process for it.
    pub fn new() -> Self {
        Self {
            has_membarrier: membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED),
        }
    }

    /// Creates full fences for both sides, as on a system without `membarrier(2)`.
    pub fn symmetric() -> Self {
        Self {
            has_membarrier: false,
        }
    }

    /// Returns `true` if the light fence emits no instruction.
    pub fn is_asymmetric(self) -> bool {
        self.has_membarrier
    }

    /// Executes the fence of the frequent side.
    #[inline]
    pub fn light(self) {
        // ORDERING: compiler fence; `heavy` executes a full barrier on this processor.
        //
        // In both cases, so that the usual one has no jump.
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
        if !self.has_membarrier {
            // ORDERING: SeqCst; pairs with the fence of `heavy`.
            fence(Ordering::SeqCst);
        }
    }

    /// Executes the rare side's fence: some microseconds with `membarrier(2)`. After [`Refused`],
    /// the sides are not ordered, and the caller must not access the other side's data.
    pub fn heavy(self) -> Result<(), Refused> {
        // ORDERING: SeqCst; orders this thread's accesses, and pairs with a symmetric `light`.
        fence(Ordering::SeqCst);
        if self.has_membarrier && !membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
            return Err(Refused);
        }
        Ok(())
    }
}

impl Default for Fences {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns `true` if `membarrier(2)` executes `command`. Models have no such call.
fn membarrier(command: libc::c_int) -> bool {
    if cfg!(loom) {
        return false;
    }
    // SAFETY: the arguments of the system call are numbers.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}
