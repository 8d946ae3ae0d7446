//! Index of a file, and the claim, through which its slots change.
//!
//! Owns.
//! - the slot array of each file ([`file_index`]), its leaves ([`leaf`]), and the budget charges of
//!   the arrays ([`extents`]);
//! - the claim of a slot ([`claim`]), and the state of the cache that claims use
//!   ([`Claims`](claims::Claims));
//! - tokens, which identify the state of a page beyond one read ([`token`]), and the generations of
//!   slots ([`lives`]).
//!
//! Calls `base`. The module `supply`, which owns the frames, passes in those for leaves.
//!
//! Promises. The word of a present slot does not repeat within one read (I5 of [`file_index`]): if
//! a thread loads the same word twice, the page was resident throughout. A thread that holds a
//! claim never waits for another claim (C3 of [`claim`]).

pub(crate) mod claim;
pub(crate) mod claims;
pub(crate) mod extents;
pub(crate) mod file_index;
pub(crate) mod leaf;
pub(crate) mod lives;
pub(crate) mod publish;
pub(crate) mod raw;
pub(crate) mod token;
