//! The unsafe operation of the supply, as a safe function. The invariants of this module are
//! obligations of its callers.

#![allow(unsafe_code)] // See above.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameNr, UniqueFrame};

use crate::index::claims::Claims;

/// Restores the handle of a frame whose number the budget or the leaf stock has kept.
pub(super) fn withheld<S: RefScheme>(claims: &Claims<S>, frame: FrameNr) -> UniqueFrame<'_, S> {
    // SAFETY: (A) both callers decomposed the handle, and have removed the number from their list
    // before they call this function.
    unsafe { UniqueFrame::from_withheld(&claims.pool, frame) }
}
