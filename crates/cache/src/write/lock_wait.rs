//! Waiting for a page that is pinned to be changed ([`super::page_lock`]).

use pagewell_frame::FrameNr;
use pagewell_frame::refcount::RefScheme;
use pagewell_sync::atomic::Ordering;

use crate::base::page::PageNr;
use crate::base::page_state::PageState;
use crate::base::slot::State;
use crate::mapping::record::Mapping;

/// Sleeps while `page` is in `frame`, and locked.
pub(crate) fn wait_while_locked<S: RefScheme>(mapping: &Mapping<S>, page: PageNr, frame: FrameNr) {
    let record = mapping.pool().meta(frame);
    let in_frame = || {
        let slot = mapping.index().look(page)?.slot;
        (slot.state() == State::Present(frame)).then(|| slot.bits())
    };
    let word = PageState::word(record);
    mapping.claims().waits.wait_while(word, |state| {
        let before = in_frame();
        // ORDERING: Acquire; the thread that unlocks stores, and wakes. Acquire also keeps the second load of the slot after
        // this: if the slot is unchanged, the frame was the page's all the time, and its word meant this. Otherwise the frame
        // may be something else, or another page: nobody wakes us for that one, or its holder waits for us.
        let is_locked = PageState::from_bits(state.load(Ordering::Acquire)).is_locked();
        is_locked && before.is_some() && in_frame() == before
    });
}
