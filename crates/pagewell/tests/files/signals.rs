//! Signals of a program that has a cache: the library's threads take none of them.

#![allow(unsafe_code)] // System calls.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::fd::FromRawFd;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use pagewell::io::engine::{Choice, Settings};
use pagewell::{Cache, File, OpenOptions};
use pagewell_testkit::wait::{block_on, until};
use pagewell_testkit::{alone, in_child, scratch};

/// The signals that the kernel sends for a fault of the thread itself.
const SYNCHRONOUS: [libc::c_int; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// Names of the other threads of this process, each with the set of blocked signals, signal N as
/// bit N - 1. Without those of the test program itself.
fn library_threads() -> Vec<(String, u64)> {
    let mut threads = Vec::new();
    for entry in fs::read_dir("/proc/self/task").unwrap() {
        let Ok(status) = fs::read_to_string(entry.unwrap().path().join("status")) else {
            continue; // It has ended.
        };
        let field = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name));
            value.expect("a field of the status").trim().to_owned()
        };
        let name = field("Name:");
        if name.starts_with("pagewell-") {
            let blocked = u64::from_str_radix(&field("SigBlk:"), 16).unwrap();
            threads.push((name, blocked));
        }
    }
    threads
}

/// Blocks `signal` in this thread, and returns the set of it alone.
fn block(signal: libc::c_int) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the pointer is valid for writes of a set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: initialized by the call before.
    let mut set = unsafe { set.assume_init() };
    // SAFETY: an initialized set, and the number of a signal.
    unsafe { libc::sigaddset(&raw mut set, signal) };
    // SAFETY: an initialized set; the old mask is not returned.
    let error = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) };
    assert_eq!(error, 0);
    set
}

fn send_to_process(signal: libc::c_int) {
    let process = std::process::id() as libc::pid_t;
    // SAFETY: no pointers.
    assert_eq!(unsafe { libc::kill(process, signal) }, 0);
}

/// A cache with a file, all of whose threads have started.
fn busy(folder: &Path, choice: Choice) -> (Cache, File) {
    let builder = Cache::builder().capacity(8 << 20);
    let cache = builder.engine(Settings::new(choice)).build().unwrap();
    let options = OpenOptions::new().write().create();
    let file = cache.open_with(folder.join("file"), &options).unwrap();
    let bytes = vec![1; 100_000];
    file.write_at(&bytes, 0).unwrap();
    block_on(file.sync_data_async()).unwrap();
    file.invalidate(0..u64::MAX);
    let (read, result) = block_on(file.read_at_async(vec![0; bytes.len()], 0));
    result.unwrap();
    assert_eq!(read, bytes);
    file.write_at(b"dirty", 0).unwrap();
    (cache, file)
}

#[test]
fn threads_of_the_library_have_blocked_all_signals_but_those_of_faults() {
    if !alone("signals::threads_of_the_library_have_blocked_all_signals_but_those_of_faults") {
        return;
    }
    let dir = scratch::dir();
    let mut names = BTreeSet::new();
    for choice in [Choice::Auto, Choice::Worker] {
        let (cache, file) = busy(dir.path(), choice);
        // A thread has its name only once it runs.
        until("the threads of the cache run", || {
            let threads = library_threads();
            ["pagewell-flushe", "pagewell-watche"]
                .iter()
                .all(|name| threads.iter().any(|(thread, _)| thread == name))
        });
        for (name, blocked) in library_threads() {
            for signal in 1..=SYNCHRONOUS.into_iter().max().unwrap() {
                // The kernel lets no thread block these two.
                let cannot = [libc::SIGKILL, libc::SIGSTOP].contains(&signal);
                let is_blocked = (blocked >> (signal - 1)) & 1 == 1;
                let expected = !SYNCHRONOUS.contains(&signal) && !cannot;
                assert_eq!(is_blocked, expected, "{name}, signal {signal}");
            }
            names.insert(name);
        }
        drop(file);
        drop(cache);
    }
    // The kernel keeps fifteen bytes of a name.
    for name in ["pagewell-flushe", "pagewell-watche", "pagewell-io"] {
        assert!(names.contains(name), "{names:?}");
    }
}

#[test]
fn signal_that_the_program_waits_for_does_not_end_it() {
    if !alone("signals::signal_that_the_program_waits_for_does_not_end_it") {
        return;
    }
    let dir = scratch::dir();
    // In the child this is the main thread, and there are no others but the library's.
    let status = in_child(|| {
        let (_cache, file) = busy(dir.path(), Choice::Auto);
        // After the threads have started: they do not inherit it.
        let signals = block(libc::SIGTERM);
        // SAFETY: an initialized set.
        let fd = unsafe { libc::signalfd(-1, &raw const signals, libc::SFD_CLOEXEC) };
        assert!(fd >= 0);
        // SAFETY: a new descriptor, which nothing else has.
        let mut signals = unsafe { fs::File::from_raw_fd(fd) };
        send_to_process(libc::SIGTERM);
        let mut info = [0; size_of::<libc::signalfd_siginfo>()];
        signals.read_exact(&mut info).unwrap();
        // Its first field is the signal's number.
        assert_eq!(info[..4], libc::SIGTERM.to_ne_bytes());
        file.close().map_err(|(_, error)| error).unwrap();
        0
    });
    assert_eq!(status, 0);
}

/// Number of signals handled.
static HANDLED: AtomicUsize = AtomicUsize::new(0);
/// Number of those that another thread than the main thread has handled.
static ELSEWHERE: AtomicUsize = AtomicUsize::new(0);

extern "C" fn handle(_signal: libc::c_int) {
    // SAFETY: the call is allowed in a handler, and touches no memory.
    let thread = unsafe { libc::gettid() };
    // SAFETY: as above.
    let process = unsafe { libc::getpid() };
    // ORDERING: Relaxed; independent numbers.
    HANDLED.fetch_add(1, Ordering::Relaxed);
    ELSEWHERE.fetch_add(usize::from(thread != process), Ordering::Relaxed);
}

#[test]
fn handler_of_the_program_does_not_run_within_its_critical_section() {
    if !alone("signals::handler_of_the_program_does_not_run_within_its_critical_section") {
        return;
    }
    let dir = scratch::dir();
    let status = in_child(|| {
        let (_cache, file) = busy(dir.path(), Choice::Auto);
        let handler: extern "C" fn(libc::c_int) = handle;
        let signals = [libc::SIGUSR1, libc::SIGUSR2, libc::SIGALRM, libc::SIGCHLD];
        for signal in signals {
            // SAFETY: the handler makes only calls that handlers may make.
            unsafe { libc::signal(signal, handler as libc::sighandler_t) };
        }
        let masks = signals.map(block);
        signals.into_iter().for_each(send_to_process);
        // The library's threads work within it.
        file.write_at(&[2; 10_000], 50_000).unwrap();
        block_on(file.sync_data_async()).unwrap();
        // ORDERING: Relaxed; of this thread, or none has been handled.
        assert_eq!(HANDLED.load(Ordering::Relaxed), 0);
        for mask in masks {
            // SAFETY: an initialized set; the old mask is not returned.
            let error = unsafe {
                libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const mask, ptr::null_mut())
            };
            assert_eq!(error, 0);
        }
        // ORDERING: Relaxed; of this thread.
        assert_eq!(HANDLED.load(Ordering::Relaxed), signals.len());
        assert_eq!(ELSEWHERE.load(Ordering::Relaxed), 0);
        file.close().map_err(|(_, error)| error).unwrap();
        0
    });
    assert_eq!(status, 0);
}
