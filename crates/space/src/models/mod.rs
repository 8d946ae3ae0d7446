//! loom models of the shipped code, with frames of two words and tables of two entries.
//!
//! Each model is named after its race. `verify/mutants` breaks the code in one place at a time, and
//! checks that the model for it fails. [`published`] models a published counting.

mod anonymous;
mod files;
mod harness;
mod published;
mod tables;
