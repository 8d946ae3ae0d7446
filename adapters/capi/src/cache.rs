//! Caches, and their options.
//!
//! - Owns: `pw_cache`, `pw_cache_options`.
//! - Calls: `error`, `entry`, `handles`, `arguments`.
//! - Promises: what is set is checked when the cache is made, all at once.

use std::ffi::{c_char, c_int};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use library::io::engine::{Choice, Settings};
use library::{Builder, Cache, HugePages};

use crate::arguments::{answer, answer_sized, needed};
use crate::entry::{call, call_with};
use crate::error::{Failure, Result};
use crate::handles::{Counted, add, tables, take, used_counted};

/// A cache: memory that holds pages of any number of files. A handle; what it points to is not an address.
#[allow(non_camel_case_types)]
pub struct pw_cache {
    _opaque: (),
}

/// How a cache is made. A handle; what it points to is not an address.
#[allow(non_camel_case_types)]
pub struct pw_cache_options {
    _opaque: (),
}

pub(crate) struct OpenCache(pub(crate) Cache);
pub(crate) struct CacheOptions(Mutex<Builder>);

tables! {
    OpenCache: 1, "cache", 1024;
    CacheOptions: 2, "cache options", 1024;
}

/// Whether the cache asks for huge pages for its memory: ::pw_cache_options_set_huge_pages.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types)]
pub enum pw_huge_pages {
    /// Where the system gives them to those who ask. The default.
    PW_HUGE_PAGES_ADVISE = 0,
    /// As the system is set up.
    PW_HUGE_PAGES_SYSTEM = 1,
    /// None.
    PW_HUGE_PAGES_NEVER = 2,
}

/// What does many transfers at once: ::pw_cache_options_set_engine.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types)]
pub enum pw_engine {
    /// io_uring; where there is none, threads. The default.
    PW_ENGINE_AUTO = 0,
    /// io_uring, or ::PW_ERROR_UNAVAILABLE.
    PW_ENGINE_URING = 1,
    /// Threads of the cache.
    PW_ENGINE_WORKER = 2,
    /// Each thread does what it gives.
    PW_ENGINE_SYNC = 3,
}

/// What a cache holds, and has done so far: ::pw_cache_stats. Hits are not counted, since a hit writes nothing that threads share.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(non_camel_case_types)]
pub struct pw_cache_stats {
    /// How many frames of 4 KiB the cache has.
    pub nr_frames: u64,
    /// How many of them are free.
    pub nr_free: u64,
    /// How many pages were read from files.
    pub nr_fills: u64,
    /// How many reads from files have failed.
    pub nr_failed_fills: u64,
    /// How many pages were evicted to make room.
    pub nr_evictions: u64,
    /// How many frames have bytes that are not known to be durable.
    pub nr_unclean: u64,
}

fn options_used(options: *const pw_cache_options) -> Result<Counted<CacheOptions>> {
    used_counted(options as u64)
}

/// Changes a setting.
fn set(options: *mut pw_cache_options, change: impl FnOnce(Builder) -> Result<Builder>) -> c_int {
    call_with::<CacheOptions>(options as u64, || {
        let options = options_used(options)?;
        let mut builder = options.0.lock().unwrap_or_else(PoisonError::into_inner);
        *builder = change(builder.clone())?;
        Ok(())
    })
}

/// Makes options for a cache, all of them at their defaults.
///
/// `options`: gets the handle, to be given back with ::pw_cache_options_free.
///
/// Errors: ::PW_ERROR_ARGUMENT, ::PW_ERROR_LIMIT after 1023 of them.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_cache_options_new(options: *mut *mut pw_cache_options) -> c_int {
    call(|| {
        needed(options)?;
        let handle = add(CacheOptions(Mutex::new(Cache::builder())))?;
        // SAFETY: the caller's duty: null, or good for writes.
        unsafe { answer(options, handle as *mut _) }
    })
}

/// Gives options back. Caches that were made with them stay as they are.
///
/// Errors: ::PW_ERROR_HANDLE, ::PW_ERROR_BUSY while another thread uses them.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_cache_options_free(options: *mut pw_cache_options) -> c_int {
    call(|| {
        let _options = take::<CacheOptions>(options as u64)?.end();
        Ok(())
    })
}

/// How much memory the cache may use, in bytes: pages, index and records together. The default is 64 MiB; at least 65 KiB, at most the memory of the
/// machine, which ::pw_cache_new checks.
///
/// Errors: ::PW_ERROR_HANDLE.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_cache_options_set_capacity(
    options: *mut pw_cache_options,
    bytes: u64,
) -> c_int {
    set(options, |builder| Ok(builder.capacity(bytes)))
}

/// The page size of files that are opened without one: 4096, 8192, 16384, 32768 or 65536 bytes, which ::pw_cache_new checks. The default is 4096.
///
/// Errors: ::PW_ERROR_HANDLE.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_cache_options_set_page_size(
    options: *mut pw_cache_options,
    bytes: usize,
) -> c_int {
    set(options, |builder| Ok(builder.page_size(bytes)))
}

/// Whether the cache asks for huge pages for its memory; they help reads at random places of a large cache, and cost memory in steps of 2 MiB.
///
/// `huge_pages`: one of ::pw_huge_pages.
///
/// Errors: ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_cache_options_set_huge_pages(
    options: *mut pw_cache_options,
    huge_pages: c_int,
) -> c_int {
    set(options, |builder| {
        Ok(builder.huge_pages(match huge_pages {
            0 => HugePages::Advise,
            1 => HugePages::System,
            2 => HugePages::Never,
            _ => return Err(Failure::unknown("huge pages", huge_pages)),
        }))
    })
}

/// How many bytes of all files together may be dirty, or written and not known to be durable. The default is half of the capacity; at most three quarters,
/// which ::pw_cache_new checks. A write to a file that has its share of them waits until pages of the file were made durable.
///
/// Errors: ::PW_ERROR_HANDLE.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_cache_options_set_dirty_limit(
    options: *mut pw_cache_options,
    bytes: u64,
) -> c_int {
    set(options, |builder| Ok(builder.dirty_limit(bytes)))
}

/// After how many milliseconds the cache makes written data durable by itself, in files that it writes back in the background. The default is 30000.
///
/// Errors: ::PW_ERROR_HANDLE.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_cache_options_set_max_dirty_age(
    options: *mut pw_cache_options,
    milliseconds: u64,
) -> c_int {
    set(options, |builder| {
        Ok(builder.max_dirty_age(Duration::from_millis(milliseconds)))
    })
}

/// How many milliseconds a write waits for a call of its file's storage, or of its hook, that does not return; then it fails with ::PW_ERROR_THROTTLED.
/// The default is 900.
///
/// Errors: ::PW_ERROR_HANDLE.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_cache_options_set_stall_timeout(
    options: *mut pw_cache_options,
    milliseconds: u64,
) -> c_int {
    set(options, |builder| {
        Ok(builder.stall_timeout(Duration::from_millis(milliseconds)))
    })
}

/// For how many milliseconds the last close of a file tries again when the storage, or the hook, has failed. The default is 1000.
///
/// Errors: ::PW_ERROR_HANDLE.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_cache_options_set_close_timeout(
    options: *mut pw_cache_options,
    milliseconds: u64,
) -> c_int {
    set(options, |builder| {
        Ok(builder.close_timeout(Duration::from_millis(milliseconds)))
    })
}

/// What does many transfers at once: batches of reads, reading ahead, requests of queues, writing back. ::pw_cache_engine says what has come of it.
///
/// `engine`: one of ::pw_engine.
///
/// Errors: ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_cache_options_set_engine(
    options: *mut pw_cache_options,
    engine: c_int,
) -> c_int {
    set(options, |builder| {
        let choice = match engine {
            0 => Choice::Auto,
            1 => Choice::Uring,
            2 => Choice::Worker,
            3 => Choice::Sync,
            _ => return Err(Failure::unknown("engine", engine)),
        };
        Ok(builder.engine(Settings::new(choice)))
    })
}

/// Makes a cache. Its memory is reserved now, and used as pages are read.
///
/// `options`: null for the defaults; they may be given back, or used for another cache, afterwards.
///
/// `cache`: gets the handle, to be given back with ::pw_cache_close.
///
/// Errors: ::PW_ERROR_CONFIG and ::PW_ERROR_PAGE_SIZE when a setting is out of its range, ::PW_ERROR_OUT_OF_MEMORY, ::PW_ERROR_UNAVAILABLE when there is no
/// such engine, ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT, ::PW_ERROR_LIMIT after 1023 caches.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_cache_new(
    options: *const pw_cache_options,
    cache: *mut *mut pw_cache,
) -> c_int {
    call(|| {
        needed(cache)?;
        let builder = if options.is_null() {
            Cache::builder()
        } else {
            let options = options_used(options)?;
            let builder = options.0.lock().unwrap_or_else(PoisonError::into_inner);
            builder.clone()
        };
        let handle = add(OpenCache(builder.build()?))?;
        // SAFETY: the caller's duty: null, or good for writes.
        unsafe { answer(cache, handle as *mut _) }
    })
}

/// Gives a cache up. Its files stay open, and its memory is there, until the last of them is closed too; no more can be opened.
///
/// Errors: ::PW_ERROR_HANDLE, ::PW_ERROR_BUSY while another thread uses the handle.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_cache_close(cache: *mut pw_cache) -> c_int {
    call(|| {
        drop(take::<OpenCache>(cache as u64)?.end());
        Ok(())
    })
}

/// What the cache holds, and has done so far.
///
/// `stats`: is filled in. `size`: `sizeof(struct pw_cache_stats)`; so a program works with a later library, whose structure has more fields at its end.
///
/// Errors: ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_cache_stats(
    cache: *mut pw_cache,
    stats: *mut pw_cache_stats,
    size: usize,
) -> c_int {
    call_with::<OpenCache>(cache as u64, || {
        let now = used_counted::<OpenCache>(cache as u64)?.0.stats();
        let value = pw_cache_stats {
            nr_frames: now.nr_frames as u64,
            nr_free: now.nr_free as u64,
            nr_fills: now.nr_fills,
            nr_failed_fills: now.nr_failed_fills,
            nr_evictions: now.nr_evictions,
            nr_unclean: now.nr_unclean as u64,
        };
        // SAFETY: the caller's duty: null, or good for writes of `size` bytes; six integers of 64 bits.
        unsafe { answer_sized(stats, size, value) }
    })
}

/// Which engine does many transfers at once, and why it is this one. It is made now, if it was not used yet.
///
/// `engine`: gets one of ::pw_engine, never ::PW_ENGINE_AUTO.
///
/// `why`: null, or gets the reason in words, up to `size` bytes with the zero at the end; what is longer is cut.
///
/// Errors: ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_cache_engine(
    cache: *mut pw_cache,
    engine: *mut c_int,
    why: *mut c_char,
    size: usize,
) -> c_int {
    call_with::<OpenCache>(cache as u64, || {
        needed(engine)?;
        let info = used_counted::<OpenCache>(cache as u64)?.0.info();
        let number = match info.engine {
            "uring" => pw_engine::PW_ENGINE_URING,
            "worker" => pw_engine::PW_ENGINE_WORKER,
            _ => pw_engine::PW_ENGINE_SYNC,
        };
        if !why.is_null() && size != 0 {
            let reason = info.engine_reason.to_string();
            let nr = reason.len().min(size - 1);
            // SAFETY: the caller's duty: good for writes of `size` bytes, of which these are less.
            unsafe { std::ptr::copy_nonoverlapping(reason.as_ptr(), why.cast(), nr) };
            // SAFETY: as above; `nr` is below `size`.
            unsafe { why.wrapping_add(nr).write(0) };
        }
        // SAFETY: the caller's duty: null, or good for writes.
        unsafe { answer(engine, number as c_int) }
    })
}

/// Evicts pages that are not pinned, those first that were not read lately.
///
/// `nr_pages`: how many at the most. `nr_evicted`: null, or gets how many it were.
///
/// Errors: ::PW_ERROR_HANDLE.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_cache_reclaim(
    cache: *mut pw_cache,
    nr_pages: usize,
    nr_evicted: *mut usize,
) -> c_int {
    call_with::<OpenCache>(cache as u64, || {
        let nr = used_counted::<OpenCache>(cache as u64)?.0.reclaim(nr_pages);
        if nr_evicted.is_null() {
            return Ok(());
        }
        // SAFETY: the caller's duty: good for writes.
        unsafe { answer(nr_evicted, nr) }
    })
}
