//! loom models of the spaces' protocols: the shipped code, with frames of two words and tables of
//! two entries.
//!
//! Each model is named after its race. `verify/mutants` breaks the code in one place at a time, and
//! checks that the model for it fails. [`published`] models the published counting of migration
//! entries.

mod anonymous;
mod files;
mod harness;
mod published;
mod tables;
