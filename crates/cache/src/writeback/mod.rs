//! Writeback: writing dirty pages to the backend, and making them durable.
//!
//! Owns. The writeback protocol of one file: the states of pages in flight ([`states`]), writing
//! them ([`give`], [`run`]), concurrently ([`flight`]), making them durable ([`durable`]), the size
//! of the backend ([`size`]), the end of a file in whole pages ([`tail`]), flushes and syncs
//! ([`flush`]), and dropping unwritten bytes ([`discard`]).
//!
//! Calls `base`, `dirty`, `mapping`, and the writeback callback. The layer above (`files`) decides
//! when to write back, and on which thread.
//!
//! Guarantees.
//! - W1: a page that is not clean is resident and is not evicted. It is in the set `dirty`,
//!   `written`, or both, as its state says.
//! - W2: the set `written` grows only with the writeback lock held.
//! - W3: at most one version of a page is in flight to the backend, and versions are written in
//!   order.
//!
//! # Protocol of writing pages to the backend
//!
//! With the file's writeback lock held, for a range of consecutive dirty pages:
//! 1. Claim each page's slot; its state becomes *unsynced* (`written`); take a reference to its
//!    frame, so that a writer moves the page instead of changing its bytes; end the claim.
//! 2. Call the writeback callback. If there is a page codec, it encodes a copy in the file's
//!    reserve ([`crate::dirty::reserve`]), which is written instead. Write the range to the backend
//!    in one request. If there are several ranges and the backend supports concurrent requests, up
//!    to 32 are in flight ([`flight`]).
//! 3. When the request completes, drop the references. If the backend failed or panicked, claim
//!    each slot again; the state becomes *dirty* again.
//!
//! A page that is written to between steps 1 and 3 is dirty and unsynced: the next flush writes it
//! again.
//!
//! # Protocol of making pages durable
//!
//! 1. Write back everything that is dirty, with the lock held throughout. If that is much, steps 3
//!    and 4 are also done in between, so that no sync takes long ([`crate::dirty::pace`]).
//! 2. Set the backend's size to that of the file, if it differs ([`size`]).
//! 3. Sync the backend.
//! 4. If the sync succeeds, *unsynced* pages become clean, and may be evicted. If it fails, all of
//!    them are *dirty* again: the backend may have dropped any of them without a record of it, so
//!    the next sync writes them again.
//!
//! Verified by `loom_write_vs_flush`, `loom_flush_fails_vs_*`, `loom_sync_vs_write`,
//! `loom_sync_fails_vs_*`, `loom_discard_vs_*`, `loom_flush_vs_truncate`;
//! `crates/pagewell/tests/durability`; `pagewell crash-test`.

pub(crate) mod discard;
pub(crate) mod durable;
mod flight;
pub(crate) mod flush;
mod give;
mod run;
pub(crate) mod size;
mod states;
pub(crate) mod tail;

/// Maximum size of a request to the backend, if a page is not larger.
const MOST_BYTES: usize = 1 << 20;

/// Returns the maximum number of pages of a request to the backend.
fn most_pages(page_size: usize) -> usize {
    (MOST_BYTES / page_size).max(1)
}
