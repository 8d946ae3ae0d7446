//! What cargo-c installs: a program outside of the tree is built by pkg-config alone.

mod support;

use std::process::Command;

use support::*;

#[test]
fn a_program_outside_of_the_tree_is_built_by_pkg_config_alone() {
    let has_cargo_c = Command::new(env!("CARGO"))
        .args(["cinstall", "--version"])
        .output();
    if !has_cargo_c.is_ok_and(|output| output.status.success()) {
        return skipped("cargo-c is not installed (cargo install --locked cargo-c)");
    }
    if !have("pkg-config") {
        return skipped("pkg-config is not installed");
    }
    let folder = folder();
    let prefix = folder.path().join("usr");
    run(Command::new(env!("CARGO"))
        .current_dir(here())
        .args(["cinstall", "--locked", "--libdir", "lib", "--prefix"])
        .arg(&prefix)
        .arg("--target-dir")
        .arg(here().join("target/cargo-c")));
    for file in [
        "include/pagewell.h",
        "lib/libpagewell.so",
        "lib/libpagewell.a",
        "lib/pkgconfig/pagewell.pc",
    ] {
        assert!(prefix.join(file).exists(), "{file}");
    }
    let dynamic = run(Command::new("readelf")
        .arg("-d")
        .arg(prefix.join("lib/libpagewell.so")));
    let dynamic = String::from_utf8_lossy(&dynamic.stdout).into_owned();
    assert!(
        dynamic.contains("SONAME") && dynamic.contains("[libpagewell.so.0"),
        "{dynamic}"
    );

    // Nothing of the tree but the source, elsewhere.
    let outside = folder.path().join("outside");
    std::fs::create_dir(&outside).expect("a folder");
    std::fs::copy(
        here().join("examples/wordcount.c"),
        outside.join("wordcount.c"),
    )
    .expect("a copy");
    std::fs::write(outside.join("text"), "one two\nthree\n").expect("a file");
    for flags in ["--cflags --libs", "--static --cflags --libs"] {
        let script = format!(
            "cc -std=c11 -Wall -Wextra -Werror wordcount.c $(pkg-config {flags} pagewell) -o \
             wordcount && ./wordcount text"
        );
        let output = run(Command::new("sh")
            .args(["-ec", &script])
            .current_dir(&outside)
            .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
            .env("LD_LIBRARY_PATH", prefix.join("lib")));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "2 3 14 text\n");
    }
}
