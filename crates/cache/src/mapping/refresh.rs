//! Detection of size changes made outside the cache.

use crate::base::error::{Error, ErrorKind, Op};
use crate::mapping::record::{FileLock, Mapping};
use crate::mapping::remove::{Remover, Unclean};

/// Adopts the backend's size, and removes the pages that the change invalidates.
pub(crate) fn refresh(mapping: &Mapping, op: Op) -> Result<u64, Error> {
    if mapping.writes_if_any().is_some() {
        // Only this mapping writes the file, and the backend may lack its full size.
        return Ok(mapping.size());
    }
    let _resize = FileLock::of(mapping, &mapping.growth.resize);
    let new = mapping.asked_size(op)?;
    let reach = mapping.reach();
    if new > reach {
        return Err(mapping
            .error(ErrorKind::FileTooLarge, op)
            .with_detail(format!("it has {new} bytes: {}", mapping.limit_of_size())));
    }
    let old = mapping.size();
    if new != old {
        // 1. Readers must not read beyond an end that has moved down.
        if new < old {
            mapping.store_size(new);
        }
        // 2. A fill that starts from here on does not use the old end. For earlier fills, `remove`
        //    waits: its fence pairs with theirs.
        mapping.store_fill_size(new);
        // 3. Remove the pages that the change invalidates.
        let first = old.min(new) >> mapping.page_shift();
        let end = old.max(new).div_ceil(mapping.page_size() as u64);
        Remover(mapping).remove(first, end, Unclean::Drop);
        if new < old {
            mapping.user().tell_cut(new);
        }
        // 4. Publish growth to readers only after the page with the zeros past the old end was
        //    removed. The release of the store publishes step 3.
        mapping.store_size(new);
    }
    Ok(new)
}
