//! End of areas. Dropping the last area of a file closes it, and the backend may panic.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pagewell_frame::refcount::RefScheme;

use crate::areas::area::Area;

/// Drops unmapped areas one by one. The caller holds no lock. If a backend panics, the other files
/// are still closed, and then the first panic resumes.
pub(crate) fn close<S: RefScheme>(areas: Vec<Area<S>>) {
    let mut first = None;
    for area in areas {
        // No state of this crate is affected, and a backend saw its own state unwind.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(area))) {
            first.get_or_insert(panic);
        }
    }
    // During another panic, that one is enough.
    if let Some(panic) = first
        && !std::thread::panicking()
    {
        resume_unwind(panic);
    }
}
