//! Answers: ranges of a known object as bytes.
//!
//! - Owns: repeats of gets of an object that changes ([`gets`]), the choice between pin and copy
//!   ([`answer`]), and pieces of long answers ([`pieces`]).
//! - Promises: the pages pinned by live answers are bounded; further answers are copies.

pub(crate) mod answer;
pub(crate) mod gets;
pub(crate) mod pieces;
