//! Dropping pages, with the bytes written to them since their last writeback.

use std::ops::Range;

use pagewell_frame::refcount::RefScheme;

use crate::base::error::{Error, ErrorKind, Op};
use crate::base::page::PageNr;
use crate::dirty::commits::Sync;
use crate::dirty::service::Step;
use crate::mapping::record::Mapping;
use crate::mapping::remove::{Remover, Unclean};
use crate::writeback::durable::Durable;

/// Drops the cached pages in `pages`, with the bytes written to them since their last writeback.
pub(crate) fn discard<S: RefScheme>(
    mapping: &Mapping<S>,
    pages: Range<PageNr>,
) -> Result<(), Error> {
    let writes = mapping.writes(Op::Invalidate)?;
    // With this lock no page is on its way to the storage, where it would change after others have read it.
    let mut storage = mapping.lock_storage(writes, Op::Invalidate)?;
    // Bytes that the storage was given, or may have taken though it failed, must still be made durable; once the page is
    // gone they could not be given again.
    let was_given = writes.written().next(pages.start, pages.end).is_some();
    if was_given || (storage.may_have_dirty && writes.any_dirty(pages.clone()).is_some()) {
        Durable(mapping)
            .sync_storage(writes, &mut storage, Sync::Data)
            .map_err(|error| mapping.write_failed(writes, Op::Invalidate, error))?;
    }
    if storage.is_doubtful && writes.any_dirty(pages.clone()).is_some() {
        return Err(mapping.error(ErrorKind::Io, Op::Invalidate).with_detail(
            "a sync has failed: what the storage has is not known before one succeeds",
        ));
    }
    // A page that is being read in is waited for.
    let _step = writes
        .service
        .begin_step(&mapping.shared().pressure, Step::Read);
    Remover(mapping).remove(pages.start, pages.end, Unclean::Drop);
    Ok(())
}
