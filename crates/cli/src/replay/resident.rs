//! How much of a file the operating system has in memory.

#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::AsRawFd;

use rustix::fs::{Advice, fadvise};

/// How it was found out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum How {
    Cachestat,
    Mincore,
}

impl How {
    pub(super) fn name(self) -> &'static str {
        match self {
            How::Cachestat => "cachestat",
            How::Mincore => "mincore",
        }
    }
}

/// Asks the system to drop what it has of the file in memory. What is dirty, or mapped by others, stays.
pub(super) fn drop_from_memory(file: &File) {
    // An advice: a file system without a cache does not mind.
    let _ = file.sync_data();
    let _ = fadvise(file, 0, None, Advice::DontNeed);
}

/// The bytes of the file that are in the operating system's cache; None if it does not tell.
pub(super) fn bytes(file: &File) -> Option<(u64, How)> {
    let page = rustix::param::page_size() as u64;
    cachestat(file)
        .map(|pages| (pages * page, How::Cachestat))
        .or_else(|| mincore(file, page).map(|pages| (pages * page, How::Mincore)))
}

/// The pages that `cachestat(2)` counts; it is there since Linux 6.5.
fn cachestat(file: &File) -> Option<u64> {
    #[repr(C)]
    struct Range {
        off: u64,
        /// 0 for all to the end.
        len: u64,
    }
    #[repr(C)]
    #[derive(Default)]
    struct Stat {
        nr_cache: u64,
        nr_dirty: u64,
        nr_writeback: u64,
        nr_evicted: u64,
        nr_recently_evicted: u64,
    }
    const NUMBER: libc::c_long = 451;
    let range = Range { off: 0, len: 0 };
    let mut stat = Stat::default();
    let (range, stat_at) = (&raw const range, &raw mut stat);
    // SAFETY: the system reads a range and writes a stat, both of the layout that it documents, at pointers to locals that live
    // until it returns; the number is that of this call on every architecture, and one that does not have it says so.
    let result = unsafe { libc::syscall(NUMBER, file.as_raw_fd(), range, stat_at, 0_u32) };
    (result == 0).then_some(stat.nr_cache)
}

/// The pages that `mincore(2)` counts in a mapping.
fn mincore(file: &File, page: u64) -> Option<u64> {
    // SAFETY: nothing reads the mapping's bytes, so it does not matter who changes them.
    let map = unsafe { memmap2::Mmap::map(file) }.ok()?;
    let mut resident = vec![0_u8; (map.len() as u64).div_ceil(page) as usize];
    let start = map.as_ptr().cast_mut().cast();
    // SAFETY: the mapping is there until the end of this function, and the vector has a byte for each of its pages.
    let result = unsafe { libc::mincore(start, map.len(), resident.as_mut_ptr()) };
    (result == 0).then(|| resident.iter().filter(|byte| *byte & 1 != 0).count() as u64)
}
