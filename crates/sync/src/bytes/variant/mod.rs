//! Variants of the copy: names, requirements, the variant in use, and the reason for its choice.
//!
//! The process has one variant in use. The first long copy, or the first call of [`choice`],
//! measures all usable variants once and chooses one (`x86_64/choice.rs`; `docs/adr/0013` gives the
//! reasons). Only a program that compares variants overrides the choice, by [`force`].
//!
//! A build without assembly (other processors, loom, Miri, ThreadSanitizer) has only
//! [`Variant::Portable`], and measures nothing.

mod by_name;
pub(super) mod names;

pub use by_name::{choice, force};
pub use names::{Choice, MARGIN, Reason, Timings, Unusable, Variant};
