//! Safe wrapper of the only unsafe operation of the supply. The safety of a call depends on its
//! callers in this module's parent, which the `SAFETY` comment names.

#![allow(unsafe_code)] // See above.

use pagewell_frame::refcount::RefScheme;
use pagewell_frame::{FrameNr, UniqueFrame};

use crate::index::claims::Claims;

/// Restores the handle of a frame whose number the budget or the leaf stock has kept.
pub(super) fn withheld<S: RefScheme>(claims: &Claims<S>, frame: FrameNr) -> UniqueFrame<'_, S> {
    // SAFETY: (A) each caller, the budget and the leaf stock, got the number from `into_withheld`,
    // and has removed it from its list before this call.
    unsafe { UniqueFrame::from_withheld(&claims.pool, frame) }
}
