//! What a hit costs through `pagewell.h`, beside the same hit of the Rust library.
//!
//!     cargo bench --bench cost                       # times
//!     cargo bench --bench cost -- --format json
//!     cargo bench --bench cost -- --instructions     # counted by callgrind: they do not depend on what else the machine does
//!
//! For times, both run in one process, each with a cache of its own, round by round in turns. The C loops are benches/loops.c, compiled by `cc -O2` and linked to `libpagewell.so`; the
//! Rust loops are here, with the library in line as a program has it.
//!
//! For instructions, this program runs itself under valgrind, with one side of one case, with so many calls and with twice as many: the difference is that of the calls alone.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use library::{Cache, File};

type CLoop = unsafe extern "C" fn(*const [*mut c_void; 2], u64, u64) -> u64;
type RustLoop = fn(&File, u64, u64) -> u64;

/// Rounds are short, some tenths of a millisecond, and many: most of them nobody interrupts, and the two sides of one see the same machine.
const NR: u64 = 50_000;
const ROUNDS: usize = 1001;

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

/// Opens the C loops.
fn c_loops() -> Result<*mut c_void, String> {
    let lib = target().ok_or("where am I?")?;
    let out = lib.join("libloops.so");
    let out = CString::new(out.to_string_lossy().as_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: a library that was built just now, whose constructors are those of Pagewell: none.
    let handle = unsafe { libc::dlopen(out.as_ptr(), libc::RTLD_NOW) };
    if handle.is_null() {
        return Err("dlopen failed".into());
    }
    Ok(handle)
}

/// Builds `libpagewell.so`, and the C loops, which are linked to it.
fn build() -> Result<(), String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let lib = target().ok_or("where am I?")?;
    let is_release = lib.ends_with("release");
    let built = Command::new(env!("CARGO"))
        .current_dir(here)
        .args(["build", "--lib", "--locked", "--target-dir"])
        .arg(lib.parent().ok_or("where am I?")?)
        .args(is_release.then_some("--release"))
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    if !built.status.success() {
        return Err(String::from_utf8_lossy(&built.stderr).into_owned());
    }
    let out = lib.join("libloops.so");
    let status = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()))
        .args([
            "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared",
        ])
        .arg("-I")
        .arg(here.join("include"))
        .arg(here.join("benches/loops.c"))
        .arg("-L")
        .arg(&lib)
        .arg("-lpagewell")
        .arg(format!("-Wl,-rpath,{}", lib.display()))
        .arg("-o")
        .arg(&out)
        .status()
        .map_err(|error| format!("cc: {error}"))?;
    if !status.success() {
        return Err("cc failed".into());
    }
    Ok(())
}

fn symbol(handle: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: an open library, and a text.
    let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
    assert!(!symbol.is_null(), "{name:?}");
    symbol
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A kind of hit: its name, its loops, and a mask of what they go over.
type Case = (&'static str, RustLoop, &'static CStr, u64);

const CASES: [Case; 4] = [
    ("read-64-hot", read, c"loops_read", 4095),
    ("read-64-16-pages", read, c"loops_read", 65535),
    ("pin-unpin", pin, c"loops_pin", 0),
    ("view-validate", view, c"loops_view", 0),
];

/// The two sides, each with a cache of its own, and the same file in it.
struct Sides {
    file: File,
    loops: *mut c_void,
    state: [*mut c_void; 2],
    _folder: tempfile::TempDir,
}

impl Sides {
    fn open(loops: *mut c_void) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("file");
        std::fs::write(&path, vec![7; 64 << 10]).expect("a file");
        let cache = Cache::builder().build().expect("a cache");
        let file = cache.open(&path).expect("a file");
        let mut state: [*mut c_void; 2] = [std::ptr::null_mut(); 2];
        // SAFETY: the function has this type.
        let open: unsafe extern "C" fn(*mut [*mut c_void; 2], *const c_char) -> c_int =
            unsafe { std::mem::transmute(symbol(loops, c"loops_open")) };
        let text = CString::new(path.to_string_lossy().as_bytes()).expect("a path");
        // SAFETY: it fills in the two handles.
        assert_eq!(unsafe { open(&raw mut state, text.as_ptr()) }, 0);
        Self {
            file,
            loops,
            state,
            _folder: folder,
        }
    }

    /// So many hits in Rust.
    fn rust(&self, case: &Case, nr: u64) {
        assert_eq!((case.1)(black_box(&self.file), nr, case.3), 0);
    }

    /// So many hits in C.
    fn c(&self, case: &Case, nr: u64) {
        // SAFETY: the functions have this type.
        let c: CLoop = unsafe { std::mem::transmute(symbol(self.loops, case.2)) };
        // SAFETY: the handles are open.
        let wrong = unsafe { c(black_box(&raw const self.state), nr, case.3) };
        assert_eq!(wrong, 0);
    }

    fn close(mut self) {
        // SAFETY: the function has this type.
        let close: unsafe extern "C" fn(*mut [*mut c_void; 2]) -> c_int =
            unsafe { std::mem::transmute(symbol(self.loops, c"loops_close")) };
        // SAFETY: the handles are open.
        assert_eq!(unsafe { close(&raw mut self.state) }, 0);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Table,
    Json,
}

/// Times each case, both sides in turns.
fn times(sides: &Sides, rounds: usize, nr: u64, format: Format) {
    if format == Format::Table {
        println!(
            "{:18} {:>9} {:>9} {:>9}   quarters of the rounds",
            "ns a call", "Rust", "C", "more"
        );
    }
    let timed = |work: &dyn Fn()| {
        let begin = Instant::now();
        work();
        begin.elapsed().as_secs_f64() * 1e9 / nr as f64
    };
    for case in &CASES {
        let (mut of_rust, mut of_c, mut more) = (vec![], vec![], vec![]);
        for round in 0..=rounds {
            let rust = || timed(&|| sides.rust(case, nr));
            let c = || timed(&|| sides.c(case, nr));
            let (r, c) = if round % 2 == 0 {
                let r = rust();
                (r, c())
            } else {
                let c = c();
                (rust(), c)
            };
            // The first warms up: pages are read, and pins marked.
            if round != 0 {
                of_rust.push(r);
                of_c.push(c);
                more.push(c - r);
            }
        }
        let (r, c, m) = (median(&mut of_rust), median(&mut of_c), median(&mut more));
        let (low, high) = (more[more.len() / 4], more[more.len() * 3 / 4]);
        let case = case.0;
        if format == Format::Json {
            for (engine, value, values) in [("rust", r, &of_rust), ("c", c, &of_c)] {
                let (min, max) = (values[0], values[values.len() - 1]);
                let line = serde_json::json!({
                    "bench": "capi", "engine": engine, "case": case, "threads": 1, "unit": "ns",
                    "value": value, "min": min, "max": max, "rounds": rounds
                });
                println!("{line}");
            }
            println!(
                "{}",
                serde_json::json!({
                    "bench": "capi", "difference": "c-rust", "case": case, "threads": 1,
                    "unit": "ns", "value": m, "low": low, "high": high
                })
            );
        } else {
            println!("{case:18} {r:9.2} {c:9.2} {m:9.2}   {low:.2} to {high:.2}");
        }
    }
}

/// How many instructions this program has under callgrind, with so many hits of one side.
fn collected(side: &str, case: &str, nr: u64) -> Result<u64, String> {
    let me = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(me)
        .args(["--only", side, case, &nr.to_string()])
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let count = said
        .lines()
        .find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    match output.status.success() {
        true => count.ok_or_else(|| format!("valgrind says no count: {said}")),
        false => Err(format!("valgrind: {}: {said}", output.status)),
    }
}

/// Counts the instructions of each case.
fn instructions(format: Format) -> Result<(), String> {
    const CALLS: u64 = 20_000;
    if format == Format::Table {
        println!(
            "{:18} {:>9} {:>9} {:>9}",
            "instructions", "Rust", "C", "more"
        );
    }
    for case in &CASES {
        let count = |side| -> Result<f64, String> {
            let [once, twice] = [
                collected(side, case.0, CALLS)?,
                collected(side, case.0, 2 * CALLS)?,
            ];
            Ok((twice as f64 - once as f64) / CALLS as f64)
        };
        let (rust, c) = (count("rust")?, count("c")?);
        if format == Format::Json {
            for (engine, value) in [("rust", rust), ("c", c)] {
                let line = serde_json::json!({
                    "bench": "capi", "engine": engine, "case": case.0, "threads": 1,
                    "unit": "instructions", "value": value
                });
                println!("{line}");
            }
        } else {
            println!("{:18} {rust:9.1} {c:9.1} {:9.1}", case.0, c - rust);
        }
    }
    Ok(())
}

/// So many hits of one side, for callgrind, after as many as it takes to be hits.
fn only(side: &str, case: &str, nr: u64) {
    let case = CASES.iter().find(|known| known.0 == case).expect("a case");
    let sides = Sides::open(c_loops().expect("the loops"));
    for nr in [1000, nr] {
        match side {
            "rust" => sides.rust(case, nr),
            _ => sides.c(case, nr),
        }
    }
    sides.close();
}

fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    if let [_, flag, side, case, nr] = &arguments[..]
        && flag == "--only"
    {
        return only(side, case, nr.parse().expect("a number"));
    }
    let format = match arguments.windows(2).any(|two| two == ["--format", "json"]) {
        true => Format::Json,
        false => Format::Table,
    };
    // `cargo test` runs benches too, to see that they run.
    let is_test = !arguments.iter().any(|argument| argument == "--bench");
    let (rounds, nr) = if is_test { (1, 1000) } else { (ROUNDS, NR) };
    let done = build().and_then(|()| {
        if arguments
            .iter()
            .any(|argument| argument == "--instructions")
        {
            return instructions(format);
        }
        let sides = Sides::open(c_loops()?);
        times(&sides, rounds, nr, format);
        sides.close();
        Ok(())
    });
    if let Err(why) = done {
        println!("skipped: {why}");
    }
}
