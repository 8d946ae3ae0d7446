//! What the storage does not have yet: which pages, how many, in which order; and the errors that handles are told.
//!
//! Owns. The additional state of a file that is written to ([`writes`]): its sets of pages ([`page_set`]), groups ([`groups`]), the
//! known state of its storage ([`storage`]), errors ([`errors`]), options ([`options`]). What the files of a cache share
//! for that ([`pressure`], [`bell`]). And which thread is in a hook ([`hook`]).
//!
//! Calls `base`. It gives nothing to the storage, and claims nothing: writers add to this state, and
//! writeback takes from it.
//!
//! Promises. The sets change only for a page whose slot the caller has claimed, so they agree with the page's state (W1 of
//! `writeback`). Locks here are held for a few steps, except the lock of the storage ([`writes::Writes::writeback`]).

pub(crate) mod bell;
pub(crate) mod errors;
pub(crate) mod groups;
pub(crate) mod hook;
pub(crate) mod options;
pub(crate) mod page_set;
pub(crate) mod pressure;
pub(crate) mod storage;
pub(crate) mod writes;
