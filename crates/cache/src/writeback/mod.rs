//! Writeback: writing dirty pages to the backend, and making them durable.
//!
//! Owns. The writeback protocol of one file: writes of page ranges ([`give`], [`run`], concurrent
//! [`flight`]), syncs of the backend ([`durable`]), its size ([`size`], [`tail`]), flushes and
//! syncs of the file, and removal of unwritten bytes ([`flush`]).
//!
//! Calls `base`, `dirty`, `mapping`, and the writeback callback. `files` decides when to write
//! back, and on which thread.
//!
//! Guarantees.
//! - W1: a page that is not clean is resident and is not evicted. It is in the set `dirty`, in the
//!   set `written`, or in both, according to its state.
//! - W2: the set `written` grows only with the writeback lock held.
//! - W3: at most one version of a page is in flight to the backend; versions are written in order.
//!
//! # Protocol of writing pages to the backend
//!
//! With the file's writeback lock held, for a range of consecutive dirty pages:
//! 1. For each page, claim the slot, change the state to *unsynced* (`written`), take a reference
//!    to the frame, and end the claim. The reference makes writers move the page, not change it.
//! 2. Call the writeback callback. A page codec encodes a copy in the file's reserve
//!    ([`crate::dirty::reserve`]), which is written instead. Write the range to the backend in one
//!    request; up to 32 requests are in flight if the backend supports it ([`flight`]).
//! 3. When the request completes, drop the references. If the backend failed or panicked, claim
//!    each slot again, and change the state back to *dirty*.
//!
//! A page that is written to between steps 1 and 3 is dirty and unsynced, and is written again.
//!
//! # Protocol of making pages durable
//!
//! 1. Acquire the writeback lock for the whole protocol, and write all dirty pages; if there are
//!    many, with steps 3 and 4 in between, so that no sync takes long ([`pagewell_policy::pace`]).
//! 2. Set the backend's size to that of the file, if it differs ([`size`]).
//! 3. Sync the backend.
//! 4. If the sync succeeds, *unsynced* pages become clean, and may be evicted. If it fails, all of
//!    them are *dirty* again: the backend may have dropped any of them without a record of it, so
//!    the next sync writes them again.
//!
//! Verified by `loom_write_vs_flush`, `loom_flush_fails_vs_*`, `loom_sync_vs_write`,
//! `loom_sync_fails_vs_*`, `loom_discard_vs_*`, `loom_flush_vs_truncate`;
//! `crates/pagewell/tests/durability`; `pagewell crash-test`.

pub(crate) mod durable;
mod flight;
pub(crate) mod flush;
mod give;
mod run;
pub(crate) mod size;
pub(crate) mod tail;

/// Maximum size in bytes of a request to the backend, which has at least one page.
const MOST_BYTES: usize = 1 << 20;

fn most_pages(page_size: usize) -> usize {
    (MOST_BYTES / page_size).max(1)
}
