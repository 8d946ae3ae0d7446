//! Truncation: when a file shrinks, private areas lose their copies of pages past its new end.
//!
//! # Protocol
//!
//! ```text
//! thread that truncates the file                first write to a page of a private area
//! 1 store the new size; drop the file's pages   a have a table; claim the empty entry
//! 2 fence(SeqCst)                               b fence(SeqCst)
//! 3 visit the spaces that may have copies:      c give up if the page is past the file's size
//!   wait for claims, empty the entries          d copy the page; end the claim: present
//! ```
//!
//! By the fences, either step 3 finds the claim of step a, in the table that existed before it, and
//! waits for d; or step c loads the new size. The lock of the file's size is held from 1 to 3. So
//! the file has not grown again when the last copy is dropped, and no copy of later contents is
//! dropped.
//!
//! # Why no copy is missed
//!
//! - C1. A space is visited with its structure lock and its unsharing lock held. So none of its
//!   tables is being copied or moved then, and afterwards none that it uses has an entry for a page
//!   past the end, nor has a later copy of these tables.
//! - C2. A copy in a table of another space exists only because that space is linked (F3 of
//!   [`crate::areas::maps`]). A fork is linked before it has tables, and these are its parent's: if
//!   it was created before the visit of the parent, it is linked by then. So the visits go on until
//!   no unvisited space is linked.
//! - C3. A parent is visited before its forks. Otherwise a fork that was visited while linked, but
//!   without tables, would get them from its parent afterwards, with entries past the end. The
//!   visit of the parent waits for the fork operation, which holds the parent's structure lock. An
//!   area of a fork begins at the same page as its parent's and is younger, which is the order of
//!   [`Links::walk`](crate::pages::links::Links::walk).
//!
//! Not dropped: the copy of the page that contains the new end, and pins.
//!
//! Locks. The lock of the file's size, then structure (for reading), unsharing, claims. A thread
//! that holds a lock of a space waits for none of a file ([`pagewell_cache::MappedFile`]).
//!
//! Verified by `loom_private_write_vs_cut`, `loom_private_whole_write_vs_cut`, `loom_fork_vs_cut`,
//! `loom_cut_vs_fork`, `loom_cut_vs_move_under_claim`; by the histories of
//! `pagewell/tests/spaces/files.rs`.

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
        // ORDERING: SeqCst fence; step 2. Pairs with the one in `is_cut_off`.
        fence(Ordering::SeqCst);
        let first = size / FRAME_BYTES as u64;
        let mut seen = HashSet::new();
        // Kept until the end, so that no address is reused.
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
            // C3: parents first.
            for space in &next {
                space.drop_copies(self, size);
            }
            done.extend(next);
        }
    }
}

/// Whether a file ends before the page at `addr`, whose entry the caller has claimed.
pub(crate) fn is_cut_off<S: RefScheme>(file: &FileArea<S>, addr: u64) -> bool {
    // ORDERING: SeqCst fence; pairs with the one in `FileMaps::cut` (store buffering: claim, load
    // the size; store the size, load claims; one sees the other).
    fence(Ordering::SeqCst);
    let start = file.pos_of(addr) & !(file.file().page_size() as u64 - 1);
    start >= file.file().size()
}
