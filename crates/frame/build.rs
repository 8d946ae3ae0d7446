//! Rejects unknown values of the cfg `pagewell_ref_scheme`, which source code cannot detect.

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
