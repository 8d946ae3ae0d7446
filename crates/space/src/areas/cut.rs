//! Cuts: when a file gets shorter, the copies of its pages go that private areas have past its new end.
//!
//! # Protocol
//!
//! ```text
//! who cuts the file                                  first write to a page of a private area
//! 1 store the new size; drop the file's pages        a make a table, or have one; claim the empty entry
//! 2 fence(SeqCst)                                    b fence(SeqCst)
//! 3 go through the spaces that may have copies:      c is the page within the file's size? if not, give up
//!   wait for claims, empty the entries               d copy the page; end the claim: present
//! ```
//!
//! By the fences, either step 3 finds the claim of step a, in the table that was there before it, and waits for d; or
//! step c sees the new size. The lock of the file's size is held from 1 to 3: so the file has not grown again when the
//! last copy goes, and a copy of what it has then is not taken for an old one.
//!
//! # Why no copy is missed
//!
//! C1. A space is gone through with its structure lock and its lock for unsharing in hand. So none of its tables is being
//!     copied or moved meanwhile, and afterwards no table that it uses has an entry for a page past the end, nor has one
//!     that is copied from those later.
//! C2. A copy that is in a table of another space is there because that space is linked (F3 of [`crate::areas::maps`]). A fork
//!     is linked before it has any tables, and it has those of its parent: if it was made before the parent was gone
//!     through, it is linked by then. So spaces are gone through until none is linked that was not.
//! C3. A parent is gone through before its forks. A fork that was gone through while it was linked and had no tables yet
//!     would get them from its parent afterwards, with what is past the end; to go through the parent waits for the
//!     copying, since that holds its structure lock. An area of a fork begins at the same page as its parent's and is
//!     younger, so the order of [`Links::walk`](crate::pages::links::Links::walk) is this one.
//!
//! What a cut leaves. The copy of the page that the new end is in stays whole; so do pins.
//!
//! Locks. The lock of the file's size, then structure (for reading), unsharing, claims. Whoever holds a lock of a space
//! waits for none of a file ([`pagewell_cache::MappedFile`]).
//!
//! Proved by `loom_private_write_vs_cut`, `loom_private_whole_write_vs_cut`, `loom_fork_vs_cut`, `loom_cut_vs_fork`,
//! `loom_cut_vs_move_under_claim`; by the histories of `pagewell/tests/spaces/files.rs`.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use pagewell_cache::FileUser;
use pagewell_frame::FRAME_BYTES;
use pagewell_frame::refcount::RefScheme;
use pagewell_sync::atomic::{Ordering, fence};

use crate::areas::file::FileArea;
use crate::areas::maps::{FileMaps, LinkedSpace};

impl FileUser for FileMaps {
    fn cut(&self, size: u64) {
        // ORDERING: SeqCst fence; the picture above. Pairs with the one in `is_cut_off`.
        fence(Ordering::SeqCst);
        let first = size / FRAME_BYTES as u64;
        let mut seen = HashSet::new();
        // Kept until the end, so that no address comes again.
        let mut done: Vec<Arc<dyn LinkedSpace>> = Vec::new();
        loop {
            let mut next = Vec::new();
            let _ = self.private.walk(first, u64::MAX, |link| {
                if seen.insert(Arc::as_ptr(&link.to).cast::<()>()) {
                    next.push(Arc::clone(&link.to));
                }
                ControlFlow::<()>::Continue(())
            });
            if next.is_empty() {
                return;
            }
            // C3.
            for space in &next {
                space.drop_copies(self, size);
            }
            done.extend(next);
        }
    }
}

/// Whether a file ends before a page of it that is to be copied. The entry for it is claimed.
pub(crate) fn is_cut_off<S: RefScheme>(file: &FileArea<S>, addr: u64) -> bool {
    // ORDERING: SeqCst fence; pairs with the one in `FileMaps::cut` (store buffering: we claim, and look at the size;
    // whoever cuts the file stores the size, and looks for claims; one must see the other).
    fence(Ordering::SeqCst);
    let start = file.pos_of(addr) & !(file.file().page_size() as u64 - 1);
    start >= file.file().size()
}
