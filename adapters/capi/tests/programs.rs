//! C and C++ programs, compiled by gcc and clang with all warnings as errors: run as they are, under valgrind, and with AddressSanitizer.

mod support;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::*;

/// The tests in C that need nothing but a folder.
const PROGRAMS: [&str; 4] = ["calls.c", "bad.c", "threads.c", "forked.c"];

/// Threads of a cache may be there when a program ends, and what they have is "possibly lost"; what nobody can reach at all is a leak.
const VALGRIND: [&str; 8] = [
    "valgrind",
    "--quiet",
    "--error-exitcode=99",
    "--fair-sched=yes",
    "--leak-check=full",
    "--show-leak-kinds=definite,indirect",
    "--errors-for-leak-kinds=definite,indirect",
    "--",
];

/// Valgrind 3.19 stands still when a thread waits in io_uring: it gets the engine of threads.
fn engine(around: &[&str]) -> Option<(&'static str, &'static str)> {
    (!around.is_empty()).then_some(("PAGEWELL_TEST_WORKERS", "1"))
}

/// Compiles a test, and runs it in a folder of its own.
fn run_test(compiler: Compiler, name: &str, libraries: &Path, more: &[&str], around: &[&str]) {
    let folder = folder();
    let program = folder.path().join("program");
    let source = match name {
        _ if name.ends_with(".cpp") => here().join("examples").join(name),
        _ => test_source(name),
    };
    compile(compiler, &source, libraries, more, &program);
    run(command(around, &program, &[folder.path().as_os_str()]).envs(engine(around)));
}

#[test]
fn the_tests_in_c_pass_with_each_compiler() {
    for compiler in present(&C) {
        for program in PROGRAMS {
            run_test(compiler, program, libraries(), &[], &[]);
        }
    }
}

#[test]
fn the_tests_in_c_are_c_plus_plus_too() {
    for compiler in present(&CXX) {
        // Atomics have another header there.
        for program in ["calls.c", "bad.c"] {
            run_test(compiler, program, libraries(), &["-x", "c++"], &[]);
        }
    }
}

#[test]
fn the_tests_in_c_pass_under_valgrind() {
    if !have("valgrind") {
        return skipped("valgrind is not installed");
    }
    for compiler in present(&C[..1]) {
        for program in PROGRAMS {
            run_test(compiler, program, libraries(), &[], &VALGRIND);
        }
        run_test(compiler, "panics.c", libraries_that_panic(), &[], &VALGRIND);
    }
}

#[test]
fn the_tests_in_c_pass_with_address_sanitizer() {
    for compiler in present(&C) {
        for program in PROGRAMS {
            run_test(
                compiler,
                program,
                libraries(),
                &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
                &[],
            );
        }
    }
}

/// The library too: what it does to memory of its own and of the program's is looked at.
#[test]
fn the_library_with_address_sanitizer_passes_the_tests_in_c() {
    let libraries = match libraries_with_address_sanitizer() {
        Ok(libraries) => libraries,
        Err(why) => return skipped(why),
    };
    let library = std::fs::read(libraries.join("libpagewell.so")).expect("the library");
    let checks = b"__asan_report_load8";
    assert!(library.windows(checks.len()).any(|part| part == checks));
    for compiler in present(&C[..1]) {
        for program in PROGRAMS {
            run_test(compiler, program, libraries, &["-fsanitize=address"], &[]);
        }
    }
}

#[test]
fn a_panic_is_an_error_and_its_handle_dead() {
    for compiler in present(&C) {
        run_test(compiler, "panics.c", libraries_that_panic(), &[], &[]);
        run_test(
            compiler,
            "panics.c",
            libraries_that_panic(),
            &["-fsanitize=address"],
            &[],
        );
    }
}

/// Not one of `PROGRAMS`: valgrind takes minutes for 65535 handles.
#[test]
fn call_without_a_free_handle_has_no_effect() {
    for compiler in present(&C[..1]) {
        run_test(compiler, "limits.c", libraries(), &[], &[]);
    }
}

#[test]
fn the_static_library_is_enough() {
    let Some(compiler) = present(&C[..1]).pop() else {
        return;
    };
    let folder = folder();
    let program = folder.path().join("program");
    run(Command::new(compiler.program)
        .args(["-std=c11", "-D_GNU_SOURCE", "-O1", "-pthread", "-I"])
        .arg(here().join("include"))
        .arg(test_source("calls.c"))
        .arg(libraries().join("libpagewell.a"))
        .args(["-ldl", "-lm", "-o"])
        .arg(&program));
    run(Command::new(&program).arg(folder.path()));
}

/// Threads and processes open, use, close, delete, rename, fork, exec and exit. Afterwards the
/// process has as many threads and descriptors as before, and no file is locked.
#[test]
fn churn_leaves_no_thread_no_descriptor_and_no_lock() {
    let Some(compiler) = present(&C[..1]).pop() else {
        return;
    };
    let folder = folder();
    let program = folder.path().join("program");
    let source = test_source("churn.c");
    compile(compiler, &source, libraries(), &[], &program);
    let seed = std::env::var("PAGEWELL_SEED").unwrap_or_else(|_| std::process::id().to_string());
    let seconds = std::env::var("PAGEWELL_SOAK_SECONDS").unwrap_or_else(|_| "5".to_owned());
    let arguments: [&OsStr; 3] = [folder.path().as_ref(), seed.as_ref(), seconds.as_ref()];
    let output = run(&mut command(&[], &program, &arguments));
    print!("{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_full_disk_is_an_error() {
    let Some(compiler) = present(&C[..1]).pop() else {
        return;
    };
    let folder = folder();
    let program = folder.path().join("program");
    compile(compiler, &test_source("full.c"), libraries(), &[], &program);
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).expect("a folder");
    // A mount of this command's alone.
    let script = format!(
        "mount -t tmpfs -o size=1m none '{disk}' && exec '{program}' '{disk}'",
        disk = disk.display(),
        program = program.display()
    );
    let can = Command::new("unshare")
        .args(["-rm", "mount", "-t", "tmpfs", "none"])
        .arg(&disk)
        .output();
    if !can.is_ok_and(|output| output.status.success()) {
        return skipped("mounts of one's own are not allowed here (unshare -rm)");
    }
    run(Command::new("unshare").args(["-rm", "sh", "-c", &script]));
}

/// Compiles an example.
fn example(compiler: Compiler, name: &str, more: &[&str], folder: &Path) -> PathBuf {
    let program = folder.join(name.replace('.', "-"));
    compile(
        compiler,
        &here().join("examples").join(name),
        libraries(),
        more,
        &program,
    );
    program
}

#[test]
fn the_word_count_counts_as_wc() {
    let folder = folder();
    let text = folder.path().join("text");
    let mut bytes = Vec::new();
    for nr in 0..5000_u32 {
        bytes
            .extend_from_slice(format!("word{nr} \t{}\n", "x".repeat(nr as usize % 90)).as_bytes());
    }
    std::fs::write(&text, &bytes).expect("a file");
    let wc = run(Command::new("wc").arg(&text).env("LC_ALL", "C"));
    let expected: Vec<_> = String::from_utf8_lossy(&wc.stdout)
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    // It is C and C++.
    for (compilers, more) in [
        (&C, &["-pedantic"][..]),
        (&CXX, &["-x", "c++", "-pedantic"]),
    ] {
        for compiler in present(compilers) {
            for around in [&[][..], &VALGRIND] {
                if !around.is_empty() && !have("valgrind") {
                    continue;
                }
                let program = example(compiler, "wordcount.c", more, folder.path());
                let output = run(&mut command(around, &program, &[text.as_os_str()]));
                let counted = String::from_utf8_lossy(&output.stdout).into_owned();
                assert!(
                    counted.split_whitespace().eq(&expected),
                    "{counted} {expected:?}"
                );
            }
            let program = example(compiler, "wordcount.c", more, folder.path());
            let none = Command::new(&program)
                .arg(folder.path().join("none"))
                .output()
                .expect("it runs");
            assert_eq!(none.status.code(), Some(1));
            assert!(
                String::from_utf8_lossy(&none.stderr).contains("no such file"),
                "{none:?}"
            );
        }
    }
}

#[test]
fn a_page_that_was_changed_in_the_storage_is_found_by_its_checksum() {
    let folder = folder();
    for (compilers, more) in [
        (&C, &["-pedantic"][..]),
        (&C, &["-pedantic", "-fsanitize=address,undefined"]),
        (&CXX, &["-x", "c++", "-pedantic"]),
    ] {
        for compiler in present(compilers) {
            let program = example(compiler, "checksums.c", more, folder.path());
            let output = run(&mut command(
                &[],
                &program,
                &[folder.path().join("summed").as_os_str()],
            ));
            assert_eq!(
                String::from_utf8_lossy(&output.stdout),
                "page 0: this is page 0\npage 1: the stored bytes failed verification\n\
                 page 2: this is page 2\n"
            );
        }
    }
}

#[test]
fn the_tree_finds_its_keys_beside_a_writer() {
    let folder = folder();
    for compiler in present(&CXX) {
        for (more, around) in [
            (&[][..], &[][..]),
            (&["-fsanitize=address,undefined"], &[]),
            (&[], &VALGRIND),
        ] {
            if !around.is_empty() && !have("valgrind") {
                continue;
            }
            let program = example(compiler, "btree.cpp", more, folder.path());
            let output = run(&mut command(
                around,
                &program,
                &[folder.path().join("tree").as_os_str()],
            ));
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(said.ends_with(" 0 wrong\n"), "{said}");
        }
    }
}
