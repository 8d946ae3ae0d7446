//! Caches and their options.
//!
//! - Owns: `pw_cache`, `pw_cache_options`.
//! - Calls: `error`, `entry`, `handles`, `arguments`.
//! - Promises: settings that are numbers are checked together when the cache is created.

use std::ffi::{c_char, c_int};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use library::io::engine::{Choice, Settings};
use library::{Builder, Cache, HugePages};

use crate::arguments::{answer, answer_sized, needed};
use crate::entry::{call, call_with};
use crate::error::{Failure, Result};
use crate::handles::{Counted, add, tables, take, used_counted};

/// Cache: memory that holds pages of any number of files. A handle, not an address.
#[allow(non_camel_case_types)]
pub struct pw_cache {
    _opaque: (),
}

/// Options of a cache. A handle, not an address.
#[allow(non_camel_case_types)]
pub struct pw_cache_options {
    _opaque: (),
}

pub(crate) struct OpenCache(pub(crate) Cache);
pub(crate) struct CacheOptions(Mutex<Builder>);

tables! {
    OpenCache: 1, "cache", 1024, Counted;
    CacheOptions: 2, "cache options", 1024, Counted;
}

/// Use of huge pages for the cache's memory: ::pw_cache_options_set_huge_pages.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types)]
pub enum pw_huge_pages {
    /// Huge pages if the system provides them on request. The default.
    PW_HUGE_PAGES_ADVISE = 0,
    /// Huge pages as the system is configured.
    PW_HUGE_PAGES_SYSTEM = 1,
    /// No huge pages.
    PW_HUGE_PAGES_NEVER = 2,
}

/// Engine for concurrent transfers: ::pw_cache_options_set_engine.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types)]
pub enum pw_engine {
    /// io_uring; if it is unavailable, threads. The default.
    PW_ENGINE_AUTO = 0,
    /// io_uring, or ::PW_ERROR_UNAVAILABLE.
    PW_ENGINE_URING = 1,
    /// Threads of the cache.
    PW_ENGINE_WORKER = 2,
    /// Each thread performs the transfers that it submits.
    PW_ENGINE_SYNC = 3,
}

/// Counters of a cache: ::pw_cache_stats. Hits are not counted: a count would write shared memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(non_camel_case_types)]
pub struct pw_cache_stats {
    /// Number of frames of 4 KiB.
    pub nr_frames: u64,
    /// Number of free frames.
    pub nr_free: u64,
    /// Number of pages read from files.
    pub nr_fills: u64,
    /// Number of failed reads from files.
    pub nr_failed_fills: u64,
    /// Number of pages evicted because frames were needed, or by ::pw_cache_reclaim.
    pub nr_evictions: u64,
    /// Number of frames with bytes that are not known to be durable.
    pub nr_unclean: u64,
}

fn options_used(options: *const pw_cache_options) -> Result<Counted<CacheOptions>> {
    used_counted(options as u64)
}

fn set(options: *mut pw_cache_options, change: impl FnOnce(Builder) -> Result<Builder>) -> c_int {
    call_with::<CacheOptions>(options as u64, || {
        let options = options_used(options)?;
        let mut builder = options.0.lock().unwrap_or_else(PoisonError::into_inner);
        *builder = change(builder.clone())?;
        Ok(())
    })
}

/// Creates options for a cache, with default settings.
///
/// `options`: receives the handle; freed with ::pw_cache_options_free.
///
/// Errors: ::PW_ERROR_ARGUMENT, ::PW_ERROR_LIMIT if 1023 options of caches exist.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_cache_options_new(options: *mut *mut pw_cache_options) -> c_int {
    call(|| {
        needed(options)?;
        let handle = add(CacheOptions(Mutex::new(Cache::builder())))?;
        // SAFETY: by the header, null, or valid for writes.
        unsafe { answer(options, handle as *mut _) }
    })
}

/// Frees options. Caches that were created with them are not affected.
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

/// Sets the capacity in bytes: pages, index and metadata together. The default is 64 MiB.
/// ::pw_cache_new checks the minimum, 65 KiB, and the maximum: the memory of the machine, or the
/// limit of the process's control group if that is smaller.
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

/// Sets the page size of files that are opened without one: 4096, 8192, 16384, 32768 or 65536
/// bytes, which ::pw_cache_new checks. The default is 4096.
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

/// Sets the use of huge pages, one of ::pw_huge_pages, for the cache's memory. They speed up reads
/// at random positions of a large cache, and use memory in steps of 2 MiB.
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

/// Sets the limit, for all files together, of bytes that are dirty, or written and not known to be
/// durable. The default is half of the capacity. ::pw_cache_new checks the minimum, 4096 bytes, and
/// the maximum, three quarters of the capacity. The quota of a file is the part of the limit that
/// is still free, but at least one page, so the files together may exceed the limit. If a file is
/// at its quota, a write to one of its clean pages waits until pages of the file are durable; with
/// ::PW_OPEN_MANUAL, it fails with ::PW_ERROR_THROTTLED at once.
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

/// Sets the age in milliseconds after which the cache makes data durable by itself, in files that
/// it writes back in the background. The default is 30000.
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

/// Sets the time in milliseconds after which a call of a backend, callback or page codec counts as
/// stalled. A write to a file at its quota of dirty pages then fails with ::PW_ERROR_THROTTLED. The
/// default is 900.
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

/// Sets the time in milliseconds for which ::pw_close of a file that is open for writing is retried
/// if the backend, callback or page codec fails. The default is 1000.
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

/// Sets the engine, one of ::pw_engine, for concurrent transfers: batches of reads, readahead,
/// requests of queues, writeback. ::pw_cache_engine returns the engine in use.
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

/// Creates a cache. The call reserves memory, which the system provides as pages are read.
///
/// `options`: null for the defaults; may be freed or used again afterwards. `cache`: receives the
/// handle; closed with ::pw_cache_close.
///
/// Errors: ::PW_ERROR_CONFIG and ::PW_ERROR_PAGE_SIZE if a setting is out of range,
/// ::PW_ERROR_OUT_OF_MEMORY, ::PW_ERROR_UNAVAILABLE if the engine is unavailable,
/// ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT, ::PW_ERROR_LIMIT if 1023 caches exist.
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
        // SAFETY: by the header, null, or valid for writes.
        unsafe { answer(cache, handle as *mut _) }
    })
}

/// Closes a cache: no more files can be opened with it. Its open files stay open, and its memory
/// stays allocated until the last of them is closed.
///
/// Errors: ::PW_ERROR_HANDLE, ::PW_ERROR_BUSY while a call with the handle is in progress.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_cache_close(cache: *mut pw_cache) -> c_int {
    call(|| {
        drop(take::<OpenCache>(cache as u64)?.end());
        Ok(())
    })
}

/// Returns contents and counters of the cache.
///
/// `stats`: receives them. `size`: `sizeof(struct pw_cache_stats)`; a later version may append
/// fields.
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
        // SAFETY: by the header, null, or valid for writes of `size` bytes; 64-bit integers.
        unsafe { answer_sized(stats, size, value) }
    })
}

/// Returns the engine for concurrent transfers, and why it was chosen. Creates it if necessary.
///
/// `engine`: receives one of ::pw_engine, never ::PW_ENGINE_AUTO. `why`: null, or receives the
/// reason as a string, truncated to `size` bytes including the terminating zero.
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
            // SAFETY: by the header, valid for writes of `size` bytes, which is more than `nr`.
            unsafe { std::ptr::copy_nonoverlapping(reason.as_ptr(), why.cast(), nr) };
            // SAFETY: as above.
            unsafe { why.wrapping_add(nr).write(0) };
        }
        // SAFETY: by the header, null, or valid for writes.
        unsafe { answer(engine, number as c_int) }
    })
}

/// Evicts pages that are neither pinned nor dirty nor unsynced, recently accessed ones last.
///
/// `nr_pages`: the maximum number. `nr_evicted`: null, or receives the number of evicted pages.
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
        // SAFETY: by the header, valid for writes.
        unsafe { answer(nr_evicted, nr) }
    })
}
