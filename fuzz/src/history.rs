//! Decodes bytes into a history of a cache and runs it against the naive model, with the code of the model
//! test: what it finds is what `crates/pagewell/tests/files/model.rs` looks for, guided by coverage.

#![no_main]

#[path = "../../crates/pagewell/tests/support/mod.rs"]
mod support;

// After `support`, which it uses.
#[path = "../../crates/pagewell/tests/files/history/mod.rs"]
mod run;

use libfuzzer_sys::fuzz_target;
use pagewell::baseline::CasLoop;
use pagewell::refcount::{LockBit};
use pagewell_testkit::history::History;

fuzz_target!(|bytes: &[u8]| {
    let history = History::decode(bytes);
    // The last byte decides, so that the rest decodes alike for both.
    let outcome = match bytes.last() {
        Some(last) if last % 4 == 0 => run::run::<CasLoop>(&history),
        _ => run::run::<LockBit>(&history),
    };
    if let Err(why) = outcome {
        panic!("{why}\n{history:#?}");
    }
});
