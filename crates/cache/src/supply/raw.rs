//! The unsafe step of supply, as a safe function whose callers' duties are invariants of this room.

#![allow(unsafe_code)] // See above.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameNr, UniqueFrame};

use crate::index::claims::Claims;

/// A frame that the budget, or the stock for leaves, kept as a bare number.
pub(super) fn withheld<S: RefScheme>(claims: &Claims<S>, frame: FrameNr) -> UniqueFrame<'_, S> {
    // SAFETY: (A) both took the handle apart, and take the number off their list before they call this.
    unsafe { UniqueFrame::from_withheld(&claims.pool, frame) }
}
