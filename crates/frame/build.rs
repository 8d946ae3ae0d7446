//! Rejects unknown values of the cfg `pagewell_ref_scheme`. Source code cannot detect them: a `cfg`
//! predicate matches a value that it names, and no predicate matches the absence of a value.
//!
//! Cargo sets the variable for cfgs in RUSTFLAGS and for those that a RUSTC_WORKSPACE_WRAPPER adds.

use std::env;

const CFG: &str = "CARGO_CFG_PAGEWELL_REF_SCHEME";

fn main() {
    println!("cargo::rerun-if-env-changed={CFG}");
    match env::var(CFG).as_deref() {
        Err(_) | Ok("lock_bit" | "cas_loop") => {}
        Ok(other) => println!(
            "cargo::error=pagewell_ref_scheme is {other:?}: expected \"lock_bit\" or \"cas_loop\""
        ),
    }
}
