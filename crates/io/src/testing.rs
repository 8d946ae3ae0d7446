//! Internals that the crate `pagewell-io-testing` builds on.

pub use crate::backend::{gather, scatter, too_large, total_len};
pub use crate::file::{Blocks, DirectTransfers, MOST_BYTES};
