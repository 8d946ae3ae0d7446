//! The unsafe operation of the supply, as a safe function. The invariants of this module are
//! obligations of its callers.

#![allow(unsafe_code)] // See above.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameNr, UniqueFrame};

use crate::index::claims::Claims;

/// Restores the handle of a frame that the budget, or the stock for leaves, kept as a number.
pub(super) fn withheld<S: RefScheme>(claims: &Claims<S>, frame: FrameNr) -> UniqueFrame<'_, S> {
    // SAFETY: (A) both decomposed the handle, and remove the number from their list before they
    // call this.
    unsafe { UniqueFrame::from_withheld(&claims.pool, frame) }
}
