//! Removal of pages together with the bytes written to them since their last writeback.

use std::ops::Range;

use pagewell_frame::refcount::RefScheme;

use crate::base::error::{Error, ErrorKind, Op};
use crate::base::page::PageNr;
use crate::dirty::commits::Sync;
use crate::dirty::service::Step;
use crate::mapping::record::Mapping;
use crate::mapping::remove::{Remover, Unclean};
use crate::writeback::durable::Durable;

/// Removes the cached pages in `pages`, with the bytes written to them since their last writeback.
pub(crate) fn discard<S: RefScheme>(
    mapping: &Mapping<S>,
    pages: Range<PageNr>,
) -> Result<(), Error> {
    let writes = mapping.writes(Op::Invalidate)?;
    // While this lock is held, no page is in flight to the backend. Otherwise the backend's bytes
    // could still change after the removal, when other threads have read them.
    let mut storage = mapping.lock_storage(writes, Op::Invalidate)?;
    // Bytes that were submitted to the backend, or that it may have stored although it failed, must
    // be made durable now: once the page is removed, they cannot be written again.
    let was_given = writes.written().next(pages.start, pages.end).is_some();
    if was_given || (storage.may_have_dirty && writes.any_dirty(pages.clone()).is_some()) {
        Durable(mapping)
            .sync_storage(writes, &mut storage, Sync::Data)
            .map_err(|error| mapping.write_failed(writes, Op::Invalidate, error))?;
    }
    if storage.is_doubtful && writes.any_dirty(pages.clone()).is_some() {
        return Err(mapping.error(ErrorKind::Io, Op::Invalidate).with_detail(
            "an earlier sync failed, and the state of the backend is unknown until a sync of \
             the whole file succeeds",
        ));
    }
    // The removal waits for pages that are being filled.
    let _step = writes
        .service
        .begin_step(&mapping.shared().pressure, Step::Read);
    Remover(mapping).remove(pages.start, pages.end, Unclean::Drop);
    Ok(())
}
