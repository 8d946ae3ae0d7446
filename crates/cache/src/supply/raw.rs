//! Safe wrapper of the only unsafe operation of the supply, whose safety depends on its callers.

#![allow(unsafe_code)] // See above.

use pagewell_frame::{FrameNr, UniqueFrame};

use crate::index::claims::Claims;

pub(super) fn withheld(claims: &Claims, frame: FrameNr) -> UniqueFrame<'_> {
    // SAFETY: (A) each caller, the budget and the leaf stock, got the number from `into_withheld`,
    // and has removed it from its list before this call.
    unsafe { UniqueFrame::from_withheld(&claims.pool, frame) }
}
