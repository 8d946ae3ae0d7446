//! loom models of the shipped code, with frames of two words and tables of two entries.
//!
//! Each model is named after its race. `verify/mutants` breaks the code, and checks that a model
//! fails. [`published`] models a counting of migration entries that was proposed for Linux.

mod anonymous;
mod files;
mod harness;
mod published;
mod tables;
