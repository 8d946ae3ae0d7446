//! The end of areas. The last area of a file closes it, which calls the program's storage; that may panic.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pagewell_frame::refcount::RefScheme;

use crate::areas::area::Area;

/// Drops areas that are mapped no more, with no lock held, one after the other: a storage that panics keeps no other file from being
/// closed, and two that do are one panic, the first, and not the end of the process.
pub(crate) fn close<S: RefScheme>(areas: Vec<Area<S>>) {
    let mut first = None;
    for area in areas {
        // Nothing of ours is changed by it, and what a storage has of its own it has seen unwind.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(area))) {
            first.get_or_insert(panic);
        }
    }
    // This may run while another panic unwinds: then that one is enough.
    if let Some(panic) = first
        && !std::thread::panicking()
    {
        resume_unwind(panic);
    }
}
