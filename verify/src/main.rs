//! Runs the litmus tests and the mutants.
fn main() {}
