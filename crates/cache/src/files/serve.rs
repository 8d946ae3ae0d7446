//! Work of the threads of a cache: scans of the watcher, requests to flushers.

use std::sync::Arc;

use pagewell_sync::lock;

use crate::dirty::calls::Call;
use crate::files::clean::{is_background, obstacle_of};
use crate::files::opened::Opened;
use crate::files::state::Files;
use crate::files::visit::visit;

pub(super) fn watch(files: &Arc<Files>) {
    let pressure = &files.shared.pressure;
    for number in files.registry.numbers() {
        if let Some(mapping) = visit(files, number)
            && let Some(writes) = mapping.writes_if_any()
            && writes.share.nr() != 0
        {
            writes.call(pressure);
        }
    }
}

pub(super) fn serve(files: &Arc<Files>, call: Call) {
    match call {
        Call::Clean(number) | Call::CleanNow(number) => clean(files, number),
        Call::Close => _ = close_one(files),
    }
}

/// Writes the dirty pages of a file to the backend. Also makes them durable if another thread waits
/// for that, if many pages are not clean, if a page has not been clean for long, or if one sync of
/// all would take long. For some time after a failure, does nothing unless a thread waits.
fn clean(files: &Files, number: u64) {
    use crate::dirty::commits::Sync;
    use crate::writeback::flush::Flusher;

    let Some(mapping) = visit(files, number).filter(|mapping| is_background(mapping)) else {
        return;
    };
    let Some(writes) = mapping.writes_if_any() else {
        return;
    };
    let pressure = &files.shared.pressure;
    let Some(attempt) = writes.service.begin_attempt(pressure, number) else {
        return;
    };
    if !attempt.is_urgent && writes.service.pause(false) != std::time::Duration::ZERO {
        // The watcher will make the request again.
        return;
    }
    let is_durable = || {
        let is_old = writes.share.nr() != 0 && writes.since.is_before(pressure.limits.age);
        !is_old && !pressure.is_high(&writes.share)
    };
    // An error or a panic is recorded for the handles of the file.
    let result = Flusher(&mapping).caught(|flusher| {
        if attempt.is_urgent {
            flusher.sync_unless(Sync::Data, || false)
        } else if is_durable() {
            flusher.flush_in_background()
        } else {
            flusher.sync_unless(Sync::Data, is_durable)
        }
    });
    attempt.end(result.err().map(|error| obstacle_of(&error)));
}

pub(crate) fn close_left(files: &Arc<Files>) {
    // If a backend panics, the other files are still closed.
    while close_one(files) {}
}

/// Drops a strong reference that was left to the flushers. If the file has no handle, first makes
/// it durable. Returns `false` if there is no such reference.
fn close_one(files: &Arc<Files>) -> bool {
    let share = lock(&files.left).pop();
    let Some(share) = share else {
        return false;
    };
    let share = Opened::new(share);
    if share.has_no_handle() {
        share.save_or_tell();
    }
    true
}
