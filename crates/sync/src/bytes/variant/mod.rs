//! Variants of the copy: names, requirements, the variant in use, and the reason for its choice.
//!
//! The first long copy or zeroing, or the first call of [`choice`], measures all usable variants
//! and chooses one for the process (`x86_64/choice.rs`; reasons: `docs/adr/0013`). [`force`]
//! overrides it. A build without assembly has only [`Variant::Portable`], and measures nothing.

mod by_name;
pub(super) mod names;

pub use by_name::{choice, force};
pub use names::{Choice, MARGIN, Reason, Timings, Unusable, Variant};
