//! Removal of pages together with their unwritten bytes.

use std::ops::Range;

use crate::base::error::{Error, ErrorKind, Op};
use crate::base::page::PageNr;
use crate::dirty::commits::Sync;
use crate::dirty::service::Step;
use crate::mapping::record::Mapping;
use crate::mapping::remove::{Remover, Unclean};
use crate::writeback::durable::Durable;

pub(crate) fn discard(mapping: &Mapping, pages: Range<PageNr>) -> Result<(), Error> {
    let writes = mapping.writes(Op::Invalidate)?;
    // With this lock, no page is in flight, so the backend's bytes do not change later.
    let mut storage = mapping.lock_storage(writes, Op::Invalidate)?;
    // Bytes that the backend may have must become durable now: they cannot be written again later.
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
    let _step = writes
        .service
        .begin_step(&mapping.shared().pressure, Step::Read);
    Remover(mapping).remove(pages.start, pages.end, Unclean::Drop);
    Ok(())
}
