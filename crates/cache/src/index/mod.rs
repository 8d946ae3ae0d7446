//! Index of a file, and the claim, through which its slots change.
//!
//! Owns.
//! - the slot array of a file ([`file_index`]), its leaves, and charges ([`extents`]);
//! - the claim of a slot ([`claim`]), and what all claims use ([`Claims`](claim::Claims));
//! - tokens, which identify a page's state beyond one read ([`token`], [`lives`]);
//! - the publication of frames, and other unsafe steps ([`raw`]).
//!
//! Calls `base`. The module `supply`, which owns the frames, passes in those for leaves.
//!
//! Promises. The word of a present slot does not repeat within one read (I5 of [`file_index`]). A
//! thread that holds a claim never waits for another (C3 of [`claim`]).

pub(crate) mod claim;
pub(crate) mod extents;
pub(crate) mod file_index;
pub(crate) mod lives;
pub(crate) mod raw;
pub(crate) mod token;
