//! Selects the compare-and-swap scheme of reference counts.

fn main() {
    println!("cargo::rustc-cfg=pagewell_ref_scheme=\"cas_loop\"");
}
