//! The size of a file that others change: taking it over.

use pagewell_frame::refcount::RefScheme;

use crate::base::error::{Error, ErrorKind, Op};
use crate::mapping::record::{FileLock, Mapping};
use crate::mapping::remove::{Remover, Unclean};

/// Asks the storage for the present size, and takes out the pages that it makes wrong: those past
/// the end, and those with the old or the new end.
pub(crate) fn refresh<S: RefScheme>(mapping: &Mapping<S>, op: Op) -> Result<u64, Error> {
    if mapping.writes_if_any().is_some() {
        // The file is written only by this mapping, and the storage may not know its full size yet.
        return Ok(mapping.size());
    }
    let _resize = FileLock::of(mapping, &mapping.growth.resize);
    let new = mapping.asked_size(op)?;
    let reach = mapping.reach();
    if new > reach {
        return Err(mapping
            .error(ErrorKind::FileTooLarge, op)
            .with_detail(format!("grown to {new} bytes; indexed up to {reach}")));
    }
    let old = mapping.size();
    if new != old {
        // 1. Readers must not go beyond an end that has come nearer.
        if new < old {
            mapping.store_size(new);
        }
        // 2. A fill that starts from here on does not take the old end for the end. `remove` waits for fills that
        // have started: its fence pairs with theirs.
        mapping.store_fill_size(new);
        // 3. Take out the pages that the change makes wrong.
        let first = old.min(new) >> mapping.page_shift();
        let end = old.max(new).div_ceil(mapping.page_size() as u64);
        Remover(mapping).remove(first, end, Unclean::Drop);
        if new < old {
            mapping.user().tell_cut(new);
        }
        // 4. Show growth to readers only when the page with the zeros past the old end is gone.
        // The release of the store publishes step 3.
        mapping.store_size(new);
    }
    Ok(new)
}
