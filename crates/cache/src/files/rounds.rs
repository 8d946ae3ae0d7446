//! What the thread that writes back does in a round.

use std::sync::Arc;

use pagewell_frame::refcount::RefScheme;
use pagewell_sync::lock;

#[cfg(not(loom))]
use crate::base::page::PageNr;
use crate::dirty::writes::Writes;
#[cfg(not(loom))]
use crate::files::clean::{Cleaner, is_background};
use crate::files::opened::Opened;
use crate::files::state::Files;
#[cfg(not(loom))]
use crate::files::visit::visit;
use crate::writeback::flush::Flusher;

/// Drops the shares of files that were left to the thread of the cache.
pub(crate) fn close_left<S: RefScheme>(files: &Arc<Files<S>>) {
    // One by one: if a backend panics, the others are still to be closed.
    loop {
        let share = lock(&files.left).pop();
        let Some(share) = share else {
            return;
        };
        let share = Opened::new(share);
        if share.writes_if_any().is_some_and(Writes::is_unhandled) {
            Flusher(&share).save_at_the_end();
        }
    }
}

/// Gives the dirty pages of all files to the storage that are written back in the background, or makes them durable
/// as long as there are many.
#[cfg(not(loom))]
pub(super) fn write_back<S: RefScheme>(files: &Arc<Files<S>>) {
    // The caller keeps the cache until the lock is let go of: it may be the last, and the program's memory then.
    let _round = files.rounds.hold();
    close_left(files);
    let pressure = &files.shared.pressure;
    let mut is_failing = pressure.last_failure.is_recent();
    while pressure.unclean.is_high() && !is_failing {
        let before = pressure.unclean.nr();
        let made = Cleaner(files).make_clean_until(|| !pressure.unclean.is_high());
        is_failing = made.is_some();
        if pressure.unclean.nr() >= before {
            // Of files that are not ours to write, or writers are as fast: they come to the limit then.
            break;
        }
    }
    for number in files.registry.numbers() {
        if let Some(mapping) = visit(files, number)
            && is_background(&mapping)
        {
            // An error is kept for the handles of the file.
            let _ = Flusher(&mapping).flush(0..PageNr::MAX);
        }
    }
}
