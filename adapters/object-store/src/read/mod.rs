//! Answers: ranges of a known object as bytes.
//!
//! - Owns: whether an answer is a pin or a copy ([`answer`]), and pieces of long ones ([`pieces`]).
//! - Calls: `objects`, `error`, `metrics`.
//! - Promises: what is pinned at once by answers that somebody still has is bounded; beyond that they are copies.

pub(crate) mod answer;
pub(crate) mod pieces;
