//! Drop of unmapped areas. The drop of a file's last area closes the file, whose backend may panic.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::areas::area::Area;

/// Drops unmapped areas one by one. The caller holds no lock. If a backend panics, the other files
/// are still closed, and then the first panic resumes.
pub(crate) fn close(areas: Vec<Area>) {
    let mut first = None;
    for area in areas {
        // A panic leaves no state of this crate inconsistent; a backend guards its own state.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(area))) {
            first.get_or_insert(panic);
        }
    }
    // If this thread is panicking already, only that panic is reported.
    if let Some(panic) = first
        && !std::thread::panicking()
    {
        resume_unwind(panic);
    }
}
