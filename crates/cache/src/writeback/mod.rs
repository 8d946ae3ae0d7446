//! Writing back: giving dirty pages to the storage, and making sure that it keeps them.
//!
//! Owns. The protocol of one file's writeback: the states of pages on their way ([`states`]), giving them to the storage
//! ([`give`], [`run`]), several at once ([`flight`]), making durable ([`durable`]), the size that the storage has ([`size`]),
//! the end of a file in whole pages ([`tail`]), flushes and syncs ([`flush`]), and dropping unwritten bytes ([`discard`]).
//!
//! Calls `base`, `dirty`, `mapping`, and the program's hook. The room above (`files`) decides when to write back, and on which
//! thread.
//!
//! Promises.
//! - W1: a page that is not clean is in the cache, and is not evicted; it is in the set `dirty`, or `written`, or
//!   both, as its state says.
//! - W2: the set `written` grows only with the writeback lock held.
//! - W3: one version of a page is on its way to the storage at a time, and versions go in order.
//!
//! # Protocol of giving pages to the storage
//!
//! With the file's writeback lock held, for a run of neighbouring dirty pages:
//! 1. Claim each page's slot; its state becomes *written*; take a reference to its frame, so that a writer
//!    moves the page instead of changing its bytes; end the claim.
//! 2. Ask the program's hook; if there are hooks on bytes, have them change a copy in memory of the file's reserve ([`crate::dirty::reserve`]), which goes out instead. Give all of them to the storage in one request. If there are several runs, and the storage does much at
//!    once, up to 32 requests are on their way ([`flight`]).
//! 3. When the request is done, drop the references. If the storage failed or panicked, claim each slot again; the state becomes *dirty*
//!    again.
//!
//! A page that is written to between 1 and 3 is dirty and written: the next flush gives it again.
//!
//! # Protocol of making durable
//!
//! 1. Write back everything that is dirty, with the lock held all along. If that is much, steps 3 and 4 are done in between too, so
//!    that no sync takes long ([`crate::dirty::pace`]).
//! 2. Tell the storage the file's size, if it does not have that size ([`size`]).
//! 3. Tell the storage to make everything that it was given durable.
//! 4. If it succeeds, pages that are *written* become clean, and may be evicted. If it
//!    fails, all of them are *dirty* again: the storage may have dropped any of them and forgotten that it did, so
//!    the next sync writes them again.
//!
//! Proved by `loom_write_vs_flush`, `loom_flush_fails_vs_*`, `loom_sync_vs_write`, `loom_sync_fails_vs_*`,
//! `loom_discard_vs_*`, `loom_flush_vs_truncate`; `crates/pagewell/tests/durability`; `pagewell crash-test`.

pub(crate) mod discard;
pub(crate) mod durable;
mod flight;
pub(crate) mod flush;
mod give;
mod run;
pub(crate) mod size;
mod states;
pub(crate) mod tail;

/// The most bytes of a request to the storage, if a page is not larger.
const MOST_BYTES: usize = 1 << 20;

/// The most pages of a request to the storage.
fn most_pages(page_size: usize) -> usize {
    (MOST_BYTES / page_size).max(1)
}
