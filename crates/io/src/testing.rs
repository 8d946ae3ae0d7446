//! Internals for the crate `pagewell-io-testing`. The facade does not re-export them.
//!
//! Safe code cannot break soundness by them: [`Trusted`] is unsafe to implement, and [`Steps`]
//! breaks no rule of requests (R1 to R4 in `backend/request.rs`), all of whose methods are public.

use crate::backend::Sealed;
use crate::engine::{Limits, MOST_SPANS};

pub use crate::backend::{Group, gather, scatter, too_large, total_len};
pub use crate::engine::job::{Steps, caught};
pub use crate::file::{
    Alone, Blocks, Gate, MOST_BYTES, Shared, are_aligned, read_blocks, write_blocks,
};

/// Limits of an engine that accepts any number of requests.
pub const NO_LIMITS: Limits = Limits {
    depth: usize::MAX,
    per_storage: usize::MAX,
    threads: usize::MAX,
    spans: MOST_SPANS,
};

/// Types outside this crate that implement [`Engine`](crate::engine::Engine) or
/// [`Lane`](crate::engine::Lane).
///
/// # Safety
///
/// Unsafe code relies on the drop of a `Lane`: unless the process was forked, it returns or unwinds
/// only when all requests of the context are completed. The type must also keep the other clauses
/// of its trait's contract, or state which it does not keep.
#[allow(unsafe_code)] // The promise is made where the trait is implemented.
pub unsafe trait Trusted {}

impl<T: Trusted> Sealed for T {}
