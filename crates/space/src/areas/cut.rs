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
//! Because of the fences, either step 3 finds the claim of step a, in a table that existed before
//! the claim, and waits for step d; or step c loads the new size. The file's size lock is held from
//! step 1 to step 3, so the file cannot grow in between: no copy of later contents is dropped.
//!
//! # Why no copy is missed
//!
//! - C1. The visit of a space holds its structure lock and its unsharing lock, so none of its
//!   tables is being copied or moved. Afterwards, neither these tables nor later copies of them
//!   have entries past the end.
//! - C2. A space whose table has a copy is linked (F3 of [`crate::areas::file`]). A fork is linked
//!   before it receives its parent's tables. A fork that received them before the parent's visit is
//!   therefore linked by then, and the visits continue until no linked space is unvisited.
//! - C3. A parent is visited before its forks. A fork visited first might have no tables yet, and
//!   then receive some with entries past the end. The visit of the parent waits for the fork
//!   operation, which holds the parent's structure lock.
//!   [`Links::walk`](crate::pages::links::Links::walk) visits an area of a fork after its parent's:
//!   the fork's is younger, and begins at the same page.
//!
//! The copy of the page that contains the new end is not dropped, and pins keep their bytes.
//!
//! Locks. A truncation acquires the file's size lock, then the structure lock (for reading), the
//! unsharing lock, and claims. A thread that holds a lock of a space waits for no lock of a file.
//!
//! Verified by `loom_private_write_vs_cut`, `loom_private_whole_write_vs_cut`, `loom_fork_vs_cut`,
//! `loom_cut_vs_fork`, `loom_cut_vs_move_under_claim`; by the histories of
//! `pagewell/tests/spaces/files.rs`.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use pagewell_cache::FileUser;
use pagewell_frame::FRAME_BYTES;
use pagewell_sync::atomic::{Ordering, fence};

use crate::areas::file::{FileArea, FileMaps, LinkedSpace};

impl FileUser for FileMaps {
    fn cut(&self, size: u64) {
        // ORDERING: SeqCst fence, step 2; pairs with the one in `is_cut_off`.
        fence(Ordering::SeqCst);
        let first = size / FRAME_BYTES as u64;
        let mut seen = HashSet::new();
        // Keeps the visited spaces: `seen` identifies a space by its address.
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
            // C3: parents before their forks, which is the order of the walk.
            for space in &next {
                space.drop_copies(self, size);
            }
            done.extend(next);
        }
    }
}

/// Returns `true` if a file ends before the page at `addr`, whose entry the caller has claimed.
pub(crate) fn is_cut_off(file: &FileArea, addr: u64) -> bool {
    // ORDERING: SeqCst fence, step b; pairs with the one in `FileMaps::cut` (store buffering: this
    // thread's load sees the new size, or the other thread's loads see the claim).
    fence(Ordering::SeqCst);
    let start = file.pos_of(addr) & !(file.file().page_size() as u64 - 1);
    start >= file.file().size()
}
