//! Variants of the copy: their names, their requirements, the one in use, and why.
//!
//! The variant is a property of the process, as the processor's features are. The first long copy,
//! or the first call of [`choice`], measures it once (`x86_64/choice.rs`; reasons in
//! `docs/adr/0013`). Only a program that compares variants chooses one by [`force`].
//!
//! A build without assembly (other processors, loom, Miri, ThreadSanitizer) has only
//! [`Variant::Portable`], and measures nothing.

mod by_name;
pub(super) mod names;

pub use by_name::{choice, force};
pub use names::{Choice, MARGIN, Reason, Timings, Unusable, Variant};
