//! The engines of `bench read`, and what is compared.

/// The engines, in the order of their lanes.
pub(in crate::bench) const ENGINES: [&str; 8] = [
    OPTIMISTIC,
    REFERENCED,
    REFERENCED_CAS,
    PREAD,
    MMAP,
    VIEW,
    BATCH,
    ASYNC,
];

const OPTIMISTIC: &str = "optimistic";
const REFERENCED: &str = "referenced";
const REFERENCED_CAS: &str = "referenced-cas";
const PREAD: &str = "pread";
const MMAP: &str = "mmap";
const VIEW: &str = "view";
const BATCH: &str = "batch-16";
const ASYNC: &str = "async";
const QUICK_CACHE: &str = "quick_cache";

/// The engines of `miss-buffered`.
pub(in crate::bench) const MISS_ENGINES: [&str; 3] = [OPTIMISTIC, PREAD, QUICK_CACHE];

/// Which of them are compared.
pub(in crate::bench) const MISS_RATIOS: [(&str, &str); 2] =
    [(OPTIMISTIC, PREAD), (OPTIMISTIC, QUICK_CACHE)];

/// Which engine is compared with which.
pub(in crate::bench) const RATIOS: [(&str, &str); 9] = [
    (OPTIMISTIC, REFERENCED),
    (OPTIMISTIC, REFERENCED_CAS),
    (OPTIMISTIC, PREAD),
    (OPTIMISTIC, MMAP),
    (REFERENCED, REFERENCED_CAS),
    (VIEW, OPTIMISTIC),
    (BATCH, OPTIMISTIC),
    (BATCH, MMAP),
    (ASYNC, OPTIMISTIC),
];

/// One line each, for people.
pub(in crate::bench) const LEGEND: [(&str, &str); 9] = [
    (
        OPTIMISTIC,
        "Pagewell, read_at: copies without a reference, and checks afterwards",
    ),
    (
        REFERENCED,
        "Pagewell, with a reference to each page; the count has a lock bit",
    ),
    (
        REFERENCED_CAS,
        "the same, with the baseline's count: a compare-and-swap loop",
    ),
    (
        PREAD,
        "the system call; the operating system has the file in memory",
    ),
    (
        MMAP,
        "memcpy from a mapping of the file: no cache can be faster than that",
    ),
    (
        VIEW,
        "Pagewell, view: a closure copies from the page where it is",
    ),
    (
        BATCH,
        "Pagewell, read_many: 16 reads wait for memory together",
    ),
    (
        ASYNC,
        "Pagewell, read_at_async: a future for each read, ready at its first poll",
    ),
    (
        QUICK_CACHE,
        "the crate, with boxed pages that pread fills; miss-buffered only",
    ),
];
