//! Dropping pages, and what was written to them since they were written back.

use std::ops::Range;

use pagewell_frame::refcount::RefScheme;

use crate::base::error::{Error, ErrorKind, Op};
use crate::base::page::PageNr;
use crate::mapping::record::Mapping;
use crate::mapping::remove::{Remover, Unclean};
use crate::writeback::durable::{Durable, Sync};

/// Drops the cached pages in `pages`, and what was written to them since they were written back.
pub(crate) fn discard<S: RefScheme>(
    mapping: &Mapping<S>,
    pages: Range<PageNr>,
) -> Result<(), Error> {
    let writes = mapping.writes(Op::Invalidate)?;
    // No page is on its way to the storage, where it would be changed after others have read it.
    let mut storage = mapping.lock_storage(writes, Op::Invalidate)?;
    // What the storage was given, or may have taken though it failed, is still to be made durable; once the page is
    // gone it could not be given again.
    let was_given = writes.written.next(pages.start, pages.end).is_some();
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
    Remover(mapping).remove(pages.start, pages.end, Unclean::Drop);
    Ok(())
}
