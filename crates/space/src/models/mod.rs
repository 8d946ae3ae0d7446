//! loom models of the spaces' protocols: the code that ships, with frames of two words and tables of two entries.
//!
//! Each model is named after its race. `verify/mutants` breaks the code in one place at a time and shows that the model that is
//! meant for it fails. [`published`] is the published counting of migration entries, as a model only.

mod anonymous;
mod files;
mod harness;
mod published;
mod tables;
