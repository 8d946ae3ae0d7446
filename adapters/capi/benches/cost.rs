//! What a hit costs through `pagewell.h`, beside the same hit of the Rust library: `cargo bench`, or `cargo bench -- --format json`.
//!
//! Both run in one process, each with a cache of its own, round by round in turns. The C loops are benches/loops.c, compiled by `cc -O2` and linked to `libpagewell.so`; the
//! Rust loops are here, with the library in line as a program has it.

use std::ffi::{CString, c_char, c_int, c_void};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use library::{Cache, File};

type CLoop = unsafe extern "C" fn(*const [*mut c_void; 2], u64, u64) -> u64;
type RustLoop = fn(&File, u64, u64) -> u64;

const NR: u64 = 2_000_000;

#[inline(never)]
fn read(file: &File, nr: u64, mask: u64) -> u64 {
    let mut buf = [0; 64];
    let mut wrong = 0;
    for i in 0..nr {
        let result = file.read_at(&mut buf, (i * 64) & mask);
        wrong += u64::from(!matches!(result, Ok(64)));
        black_box(&mut buf);
    }
    wrong
}

#[inline(never)]
fn pin(file: &File, nr: u64, mask: u64) -> u64 {
    let mut wrong = 0;
    for i in 0..nr {
        match file.pin(i & mask) {
            Ok(page) => {
                wrong += u64::from(page.len() != 4096);
                black_box(page.as_ptr());
            }
            Err(_) => wrong += 1,
        }
    }
    wrong
}

#[inline(never)]
fn view(file: &File, nr: u64, mask: u64) -> u64 {
    let mut wrong = 0;
    for i in 0..nr {
        let seen = file.view(i & mask, |v| {
            black_box(v.u64_le(0)?);
            Ok(v.token())
        });
        wrong += u64::from(!seen.is_ok_and(|token| file.is_unchanged(&token)));
    }
    wrong
}

fn target() -> Option<PathBuf> {
    // target/PROFILE/deps/cost-HASH
    let exe = std::env::current_exe().ok()?;
    Some(exe.parent()?.parent()?.to_owned())
}

/// Builds the C loops, and opens them.
fn c_loops() -> Result<*mut c_void, String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = target().ok_or("where am I?")?;
    // Benches of `cargo bench` have the shared library among their dependencies.
    let libs = [target.clone(), target.join("deps")];
    let lib = libs.iter().find(|dir| dir.join("libpagewell.so").exists());
    let lib = lib.ok_or("there is no libpagewell.so: cargo build --release")?;
    let out = target.join("libloops.so");
    let status = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()))
        .args([
            "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared",
        ])
        .arg("-I")
        .arg(here.join("include"))
        .arg(here.join("benches/loops.c"))
        .arg("-L")
        .arg(lib)
        .arg("-lpagewell")
        .arg(format!("-Wl,-rpath,{}", lib.display()))
        .arg("-o")
        .arg(&out)
        .status()
        .map_err(|error| format!("cc: {error}"))?;
    if !status.success() {
        return Err("cc failed".into());
    }
    let out = CString::new(out.to_string_lossy().as_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: a library that was built just now, whose constructors are those of Pagewell: none.
    let handle = unsafe { libc::dlopen(out.as_ptr(), libc::RTLD_NOW) };
    if handle.is_null() {
        return Err("dlopen failed".into());
    }
    Ok(handle)
}

fn symbol(handle: *mut c_void, name: &str) -> *mut c_void {
    let name = CString::new(name).unwrap_or_default();
    // SAFETY: an open library, and a text.
    let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
    assert!(!symbol.is_null(), "{name:?}");
    symbol
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    let is_json = arguments.windows(2).any(|two| two == ["--format", "json"]);
    // `cargo test` runs benches too, to see that they run.
    let is_test = !arguments.iter().any(|argument| argument == "--bench");
    let (rounds, nr) = if is_test { (1, 1000) } else { (31, NR) };
    let loops = match c_loops() {
        Ok(loops) => loops,
        Err(why) => {
            println!("skipped: {why}");
            return;
        }
    };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("file");
    std::fs::write(&path, vec![7; 64 << 10]).expect("a file");

    let cache = Cache::builder().build().expect("a cache");
    let file = cache.open(&path).expect("a file");
    let mut state: [*mut c_void; 2] = [std::ptr::null_mut(); 2];
    // SAFETY: the function has this type.
    let open: unsafe extern "C" fn(*mut [*mut c_void; 2], *const c_char) -> c_int =
        unsafe { std::mem::transmute(symbol(loops, "loops_open")) };
    let text = CString::new(path.to_string_lossy().as_bytes()).expect("a path");
    // SAFETY: it fills in the two handles.
    assert_eq!(unsafe { open(&raw mut state, text.as_ptr()) }, 0);

    let cases: [(&str, RustLoop, &str, u64); 4] = [
        ("read-64-hot", read, "loops_read", 4095),
        ("read-64-16-pages", read, "loops_read", 65535),
        ("pin-unpin", pin, "loops_pin", 0),
        ("view-validate", view, "loops_view", 0),
    ];
    if !is_json {
        println!(
            "{:18} {:>9} {:>9} {:>9}   rounds' extremes",
            "ns a call", "Rust", "C", "more"
        );
    }
    for (case, rust, name, mask) in cases {
        // SAFETY: the functions have this type.
        let c: CLoop = unsafe { std::mem::transmute(symbol(loops, name)) };
        let (mut of_rust, mut of_c, mut more) = (vec![], vec![], vec![]);
        for round in 0..=rounds {
            let time_rust = || {
                let begin = Instant::now();
                assert_eq!(rust(black_box(&file), nr, mask), 0);
                begin.elapsed().as_secs_f64() * 1e9 / nr as f64
            };
            let time_c = || {
                let begin = Instant::now();
                // SAFETY: the handles are open.
                assert_eq!(unsafe { c(black_box(&raw const state), nr, mask) }, 0);
                begin.elapsed().as_secs_f64() * 1e9 / nr as f64
            };
            let (r, c) = if round % 2 == 0 {
                let r = time_rust();
                (r, time_c())
            } else {
                let c = time_c();
                (time_rust(), c)
            };
            // The first warms up: pages are read, and pins marked.
            if round != 0 {
                of_rust.push(r);
                of_c.push(c);
                more.push(c - r);
            }
        }
        let (r, c, m) = (median(&mut of_rust), median(&mut of_c), median(&mut more));
        let (low, high) = (more[0], more[more.len() - 1]);
        if is_json {
            for (engine, value, values) in [("rust", r, &of_rust), ("c", c, &of_c)] {
                let (min, max) = (values[0], values[values.len() - 1]);
                let line = serde_json::json!({"bench": "capi", "engine": engine, "case": case, "threads": 1, "unit": "ns", "value": value, "min": min, "max": max, "rounds": rounds});
                println!("{line}");
            }
            println!(
                "{}",
                serde_json::json!({"bench": "capi", "difference": "c-rust", "case": case, "threads": 1, "unit": "ns", "value": m, "low": low, "high": high})
            );
        } else {
            println!("{case:18} {r:9.2} {c:9.2} {m:9.2}   {low:.2} to {high:.2}");
        }
    }
    // SAFETY: the function has this type.
    let close: unsafe extern "C" fn(*mut [*mut c_void; 2]) -> c_int =
        unsafe { std::mem::transmute(symbol(loops, "loops_close")) };
    // SAFETY: the handles are open.
    assert_eq!(unsafe { close(&raw mut state) }, 0);
}
