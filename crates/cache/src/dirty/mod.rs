//! What the storage does not have yet: which pages, how many, in which order, and who is to be told of errors.
//!
//! Owns. What a file has that is written to ([`writes`]): its sets of pages ([`page_set`]), groups ([`groups`]), what is known of
//! its storage ([`storage`]), errors ([`errors`]), how it is to be written back ([`options`]); what the files of a cache share
//! for that ([`pressure`], [`bell`]); and which thread is in a hook ([`hook`]).
//!
//! Calls `base`. It gives nothing to the storage, and claims nothing: it is the state that writers push to and that
//! writeback takes from.
//!
//! Promises. The sets change only for a page whose slot the caller has claimed, so they agree with the page's state (W1 of
//! `writeback`). Locks here are held for a few steps, but for that of the storage ([`writes::Writes::writeback`]).

pub(crate) mod bell;
pub(crate) mod errors;
pub(crate) mod groups;
pub(crate) mod hook;
pub(crate) mod options;
pub(crate) mod page_set;
pub(crate) mod pressure;
pub(crate) mod storage;
pub(crate) mod writes;
