//! Decodes bytes into a history of a cache and runs it against the naive model, with the code of the model
//! test: what it finds is what `crates/pagewell/tests/files/model.rs` looks for, guided by coverage.

#![no_main]

#[path = "../../crates/pagewell/tests/support/mod.rs"]
mod support;

// After `support`, which it uses.
#[path = "../../crates/pagewell/tests/files/history/mod.rs"]
mod run;

use libfuzzer_sys::fuzz_target;
use pagewell_testkit::history::History;

fuzz_target!(|bytes: &[u8]| {
    let history = History::decode(bytes);
    if let Err(why) = run::run(&history) {
        panic!("{why}\n{history:#?}");
    }
});
