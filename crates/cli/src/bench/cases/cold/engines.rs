//! The engines of `bench cold`, and what is compared.

use std::time::Duration;

use crate::bench::plan::{Case, Settings};

pub(super) const READ_MANY: &str = "read-many";
pub(super) const ASYNC: &str = "async";
pub(super) const BLOCKING: &str = "blocking";
pub(super) const PREAD: &str = "pread";
pub(super) const ONE_THREAD: &str = "one-thread";
pub(super) const FDATASYNC: &str = "fdatasync";
pub(super) const FIO_URING: &str = "fio-uring";
pub(super) const FIO_PSYNC: &str = "fio-psync";

/// The engines of a case, in the order of their lanes. Those that may not be there come last.
pub(in crate::bench) const fn engines(case: Case) -> &'static [&'static str] {
    match case {
        Case::RandomDepth32 => &[READ_MANY, FIO_URING],
        Case::RandomDepth64 => &[ASYNC, READ_MANY, FIO_URING],
        Case::Sequential => &[BLOCKING, PREAD, FIO_URING],
        Case::CommitThreads64 => &[BLOCKING, ONE_THREAD, FDATASYNC],
        _ => &[BLOCKING, PREAD, FIO_PSYNC],
    }
}

/// Which engine is compared with which.
pub(in crate::bench) const fn ratios(case: Case) -> &'static [(&'static str, &'static str)] {
    match case {
        Case::RandomDepth32 => &[(READ_MANY, FIO_URING)],
        Case::RandomDepth64 => &[
            (ASYNC, READ_MANY),
            (ASYNC, FIO_URING),
            (READ_MANY, FIO_URING),
        ],
        Case::Sequential => &[(BLOCKING, PREAD), (BLOCKING, FIO_URING)],
        Case::CommitThreads64 => &[(BLOCKING, ONE_THREAD), (BLOCKING, FDATASYNC)],
        _ => &[(BLOCKING, PREAD), (BLOCKING, FIO_PSYNC)],
    }
}

/// One line each, for people.
pub(in crate::bench) const LEGEND: [(&str, &str); 8] = [
    (
        ASYNC,
        "Pagewell, read_at_async: as many futures in one thread",
    ),
    (READ_MANY, "Pagewell, read_many of as many reads"),
    (
        BLOCKING,
        "Pagewell, read_at; in commits write_at and sync_data",
    ),
    (ONE_THREAD, "the same commits by one thread alone"),
    (PREAD, "the system call, past the operating system's cache"),
    (
        FDATASYNC,
        "the system calls pwrite and fdatasync, by as many threads",
    ),
    (FIO_URING, "the program fio, io_uring at that depth"),
    (FIO_PSYNC, "the program fio, pread by as many threads"),
];

/// fio needs half a second to start and to end, so there are fewer and longer rounds than elsewhere.
const QUICK_ROUNDS: u32 = 3;
const FULL_ROUNDS: u32 = 7;
const QUICK_SLICE: Duration = Duration::from_millis(100);
const FULL_SLICE: Duration = Duration::from_millis(400);

/// How many rounds there are, and how long an engine is measured over all of them.
pub(in crate::bench) fn times(settings: &Settings) -> (u32, Duration) {
    let (most, slice) = match settings.quick {
        true => (QUICK_ROUNDS, QUICK_SLICE),
        false => (FULL_ROUNDS, FULL_SLICE),
    };
    if settings.has_own_seconds {
        return (settings.rounds, settings.seconds);
    }
    let rounds = settings.rounds.min(most);
    (rounds, slice * rounds)
}
