//! The engines of `bench write`, and what is compared.

pub(super) const PAGEWELL: &str = "pagewell";
pub(super) const PWRITE: &str = "pwrite";
pub(super) const MMAP: &str = "mmap";
pub(super) const FIO: &str = "fio";
pub(super) const ALONE: &str = "alone";
pub(super) const BESIDE: &str = "beside";

/// The engines, in the order of their lanes.
pub(in crate::bench) const ENGINES: [&str; 3] = [PAGEWELL, PWRITE, MMAP];

/// The engines of `writeback`; the last one may be missing.
pub(in crate::bench) const WRITEBACK_ENGINES: [&str; 3] = [PAGEWELL, PWRITE, FIO];

/// The engines of `write-beside-waiters`.
pub(in crate::bench) const WAITERS_ENGINES: [&str; 2] = [ALONE, BESIDE];

/// Which engine is compared with which in `write-beside-waiters`.
pub(in crate::bench) const WAITERS_RATIOS: [(&str, &str); 1] = [(ALONE, BESIDE)];

/// Which engine is compared with which.
pub(in crate::bench) const RATIOS: [(&str, &str); 2] = [(PAGEWELL, PWRITE), (PAGEWELL, MMAP)];

/// Which engine is compared with which in `writeback`.
pub(in crate::bench) const WRITEBACK_RATIOS: [(&str, &str); 3] =
    [(PAGEWELL, PWRITE), (PAGEWELL, FIO), (PWRITE, FIO)];

/// One line each, for people.
pub(in crate::bench) const LEGEND: [(&str, &str); 6] = [
    (
        PAGEWELL,
        "Pagewell: write_at or append, and sync_data (writeback: sync_all)",
    ),
    (
        PWRITE,
        "the system calls pwrite or write, and fdatasync (writeback: fsync)",
    ),
    (
        MMAP,
        "memcpy to a shared mapping, and msync: no cache can be faster than that",
    ),
    (
        FIO,
        "the program fio: psync engine, same file and block, fsync at the end",
    ),
    (ALONE, "Pagewell: write_at in a cache without waiters"),
    (
        BESIDE,
        "the same in a cache in which 20 000 tasks wait for 64 pages of a file that hangs",
    ),
];
