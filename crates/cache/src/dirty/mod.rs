//! Dirty-page tracking: pages that the backend lacks, their number, and errors reported to handles.
//!
//! Owns. The state of a file open for writing and of its backend ([`writes`]): its sets of pages
//! ([`page_set`]), errors ([`errors`]), group commit ([`commits`]), the oldest log sequence number
//! ([`oldest`]), counts of its [`handles`], owners of page locks and the thread in its callback
//! ([`hook`]), attempts at its writeback ([`service`]), memory for encoded pages ([`reserve`]). For
//! all files: the limit of frames that are not clean ([`pressure`]), and the requests to the
//! flushers ([`calls`]).
//!
//! Depends on `base` only. The module writes nothing to the backend and claims no slot.
//!
//! Guarantees. The sets change only for a page whose slot the caller has claimed, so they agree
//! with the page's state (W1 of `writeback`). Locks of this module are held for a few steps, except
//! the writeback lock ([`writes::Writes::writeback`]).

pub(crate) mod calls;
pub(crate) mod commits;
pub(crate) mod errors;
pub(crate) mod handles;
pub(crate) mod hook;
pub(crate) mod oldest;
pub(crate) mod page_set;
pub(crate) mod pressure;
pub(crate) mod reserve;
pub(crate) mod service;
pub(crate) mod writes;
