//! The variants of the copy: which there are, which one is used, and why.
//!
//! Owns: their names, what they need of the processor, and the answers to these questions. Which variant
//! is used is a fact of the process, as what the processor has is: it is measured once, by the first long
//! copy or who asks first (`x86_64/choice.rs` has how; `docs/adr/0013` why), and only a program that
//! measures the variants themselves chooses by [`force`].
//!
//! Where there is no assembly (other processors, loom, Miri, ThreadSanitizer) there is one variant,
//! [`Variant::Portable`], and nothing to measure.

mod by_name;
pub(super) mod names;

pub use by_name::{choice, force};
pub use names::{Choice, MARGIN, Reason, Timings, Unusable, Variant};
