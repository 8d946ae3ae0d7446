//! Internals for the crate `pagewell-io-testing`, which no other crate may use.
//!
//! Unsafe code relies on the contracts of the [`Sealed`] traits. This export keeps that sound: the
//! facade does not re-export it, so programs cannot name [`Sealed`], and the only implementations
//! elsewhere are the simulator's. [`Steps`] breaks no rule of requests (R1 to R4 in
//! `backend/request.rs`), all of whose methods are public.

use crate::engine::{Limits, MOST_SPANS};

pub use crate::backend::{Group, Sealed, gather, scatter, too_large, total_len};
pub use crate::engine::Steps;
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
