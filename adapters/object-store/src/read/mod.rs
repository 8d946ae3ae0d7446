//! Answers: ranges of a known object as bytes.
//!
//! - Owns: repetition of gets of an object that changes ([`gets`]), the choice between pin and copy
//!   ([`answer`]), and pieces of long answers ([`pieces`]).
//! - Promises: the number of pages that live answers pin is bounded. Further answers are copies.

pub(crate) mod answer;
pub(crate) mod gets;
pub(crate) mod pieces;
