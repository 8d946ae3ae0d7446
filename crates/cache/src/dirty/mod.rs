//! What the storage does not have yet: which pages, how many; and the errors that handles are told.
//!
//! Owns. The additional state of a file that is written to ([`writes`]): its sets of pages ([`page_set`]),
//! owners of page locks ([`groups`]),
//! the known state of its storage ([`storage`]), how much that is given between syncs ([`pace`]), errors ([`errors`]), syncs that
//! several threads share ([`commits`]), the oldest log sequence number ([`oldest`]), options ([`options`]), memory for pages on their way ([`reserve`]), what its write-back is doing ([`service`], [`attendance`]). What the files of a cache share: the limit of dirty
//! frames ([`pressure`]), and the calls for the threads of the cache ([`calls`]). And which thread is in a hook ([`hook`]), or
//! has locks of a file ([`order`]).
//!
//! Calls `base`. It gives nothing to the storage, and claims nothing: writers add to this state, and
//! writeback takes from it.
//!
//! Promises. The sets change only for a page whose slot the caller has claimed, so they agree with the page's state (W1 of
//! `writeback`). Locks here are held for a few steps, except the lock of the storage ([`writes::Writes::writeback`]).

pub(crate) mod attendance;
pub(crate) mod calls;
pub(crate) mod commits;
pub(crate) mod errors;
pub(crate) mod groups;
pub(crate) mod hook;
pub(crate) mod oldest;
pub(crate) mod options;
pub(crate) mod order;
pub(crate) mod pace;
pub(crate) mod page_set;
pub(crate) mod pressure;
pub(crate) mod reserve;
pub(crate) mod service;
pub(crate) mod storage;
pub(crate) mod writes;
