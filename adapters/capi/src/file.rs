//! Files: options, open, close, and information.
//!
//! - Owns: `pw_file`, `pw_open_options`.
//! - Calls: `error`, `entry`, `handles`, `arguments`, `cache`, `pins`, `hooks`.
//! - Promises: a handle is closed only when no call, pin, edit or request uses it.

use std::ffi::{c_char, c_int, c_void};
use std::mem::{self, ManuallyDrop};
use std::sync::{Arc, Mutex, PoisonError};

use library::io::{Direct, Transfers};
use library::{BeforeWrite, File, OpenOptions, PageHooks, Writeback};

use crate::arguments::{answer, answer_sized, needed, path as checked_path, signed};
use crate::cache::{OpenCache, pw_cache};
use crate::entry::{call, call_with};
use crate::error::pw_error::*;
use crate::error::{Failure, Result};
use crate::handles::{add, reserve, tables, take, used_counted, with};
use crate::hooks::{
    Hook, HooksOnBytes, pw_after_read, pw_before_write, pw_before_write_pages, pw_hole,
    pw_release_user,
};
use crate::pins::is_pinned;

/// Open file. A handle, not an address.
#[allow(non_camel_case_types)]
pub struct pw_file {
    _opaque: (),
}

/// Options of an open, in addition to the flags. A handle, not an address.
#[allow(non_camel_case_types)]
pub struct pw_open_options {
    _opaque: (),
}

/// Open file. It is absent during a close, and after a close that has succeeded or panicked.
pub(crate) struct OpenFile(ManuallyDrop<File>, Presence);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Here,
    Gone,
}

impl OpenFile {
    pub(crate) fn new(file: File) -> Self {
        Self(ManuallyDrop::new(file), Presence::Here)
    }

    /// The file is present: the caller found the handle open, and a panic makes a handle dead.
    #[inline(always)]
    pub(crate) fn file(&self) -> &File {
        &self.0
    }

    /// Closes the file, if it is present.
    fn close(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.1, Presence::Gone) == Presence::Gone {
            return Ok(());
        }
        // SAFETY: the file is present. It is marked absent first, so that no drop or other close
        // takes it again if this close panics. Exclusive access: `&mut self`.
        let file = unsafe { ManuallyDrop::take(&mut self.0) };
        match file.close() {
            Ok(()) => Ok(()),
            Err((file, error)) => {
                *self = Self::new(file);
                Err(error.into())
            }
        }
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if self.1 == Presence::Here {
            // SAFETY: the file is present, and nothing uses it after this.
            unsafe { ManuallyDrop::drop(&mut self.0) };
        }
    }
}

#[derive(Clone, Default)]
struct Opening {
    page_size: Option<usize>,
    mode: Option<u32>,
    hook: Option<Arc<BeforeWrite>>,
    page_hooks: Option<Arc<dyn PageHooks>>,
}

pub(crate) struct OpenFileOptions(Mutex<Opening>);

tables! {
    OpenFile: 4, "file", 65536, Published;
    OpenFileOptions: 5, "open options", 4096, Counted;
}

/// Open for reading and writing, which only one cache of one process can do at a time. Without a
/// flag that opens for writing, and without a writeback callback, a file is open for reading only.
pub const PW_OPEN_WRITE: c_int = 1;
/// Open for writing, and create the file if it does not exist.
pub const PW_OPEN_CREATE: c_int = 2;
/// Open for writing, and create the file; fail if it exists.
pub const PW_OPEN_CREATE_NEW: c_int = 4;
/// Open for writing, and truncate the file to zero bytes.
pub const PW_OPEN_TRUNCATE: c_int = 8;
/// Use direct I/O, bypassing the system's cache, if the file system supports it (see
/// ::pw_file_info).
pub const PW_OPEN_DIRECT: c_int = 16;
/// Use direct I/O, or fail with ::PW_ERROR_UNAVAILABLE.
pub const PW_OPEN_DIRECT_ALWAYS: c_int = 32;
/// Open for writing, and write dirty pages only when the program requests it or closes the file.
/// Without this flag, the cache writes them soon, in the background, unless the file is already
/// open with this flag.
pub const PW_OPEN_MANUAL: c_int = 64;

const ALL_FLAGS: c_int = PW_OPEN_WRITE
    | PW_OPEN_CREATE
    | PW_OPEN_CREATE_NEW
    | PW_OPEN_TRUNCATE
    | PW_OPEN_DIRECT
    | PW_OPEN_DIRECT_ALWAYS
    | PW_OPEN_MANUAL;

fn set(options: *mut pw_open_options, change: impl FnOnce(&mut Opening) -> Result<()>) -> c_int {
    call_with::<OpenFileOptions>(options as u64, || {
        let before = {
            let options = used_counted::<OpenFileOptions>(options as u64)?;
            let mut opening = options.0.lock().unwrap_or_else(PoisonError::into_inner);
            let mut changed = opening.clone();
            change(&mut changed)?;
            mem::replace(&mut *opening, changed)
        };
        // A callback that was replaced is released without the lock and the handle, since the
        // program's `release` may use the options.
        drop(before);
        Ok(())
    })
}

/// Creates options for opens, with default settings. They may be used for any files of any caches.
///
/// `options`: receives the handle; freed with ::pw_open_options_free.
///
/// Errors: ::PW_ERROR_ARGUMENT, ::PW_ERROR_LIMIT if 4095 options of opens exist.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_open_options_new(options: *mut *mut pw_open_options) -> c_int {
    call(|| {
        needed(options)?;
        let handle = add(OpenFileOptions(Mutex::default()))?;
        // SAFETY: by the header, null, or valid for writes.
        unsafe { answer(options, handle as *mut _) }
    })
}

/// Frees options. Files that were opened with them keep their callback and page codec.
///
/// Errors: ::PW_ERROR_HANDLE, ::PW_ERROR_BUSY while another thread uses them.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_open_options_free(options: *mut pw_open_options) -> c_int {
    call(|| {
        drop(take::<OpenFileOptions>(options as u64)?.end());
        Ok(())
    })
}

/// Sets the file's page size: 4096, 8192, 16384, 32768 or 65536 bytes; or 0, the default, for the
/// page size with which the file is already open, or else that of the cache. ::pw_open checks this.
///
/// Errors: ::PW_ERROR_HANDLE.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_open_options_set_page_size(
    options: *mut pw_open_options,
    bytes: usize,
) -> c_int {
    set(options, |opening| {
        opening.page_size = (bytes != 0).then_some(bytes);
        Ok(())
    })
}

/// Sets the permissions of a file that ::pw_open creates, less the process's `umask`, as the `mode`
/// of `open`. The default is 0666.
///
/// Errors: ::PW_ERROR_HANDLE.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_open_options_set_mode(
    options: *mut pw_open_options,
    bits: u32,
) -> c_int {
    set(options, |opening| {
        opening.mode = Some(bits);
        Ok(())
    })
}

/// Sets a writeback callback, for write-ahead logs. The library calls it before it writes a page of
/// the file to the backend. The callback makes the log durable up to the page's log sequence
/// number, or refuses the page. Files that are opened with a callback are open for writing.
///
/// `hook`: the callback, or null for none. `user`: the pointer that is passed to it. `release`:
/// null, or a function that is called with `user` once neither these options nor a file uses the
/// callback; not called if `hook` is null.
///
/// The callback is called by threads of the cache, and by threads of the program that flush, sync
/// or close the file, or, with a page codec, change its size or write past its end. Several threads
/// may call it at once. Reads never call it. It may use other files of the cache, such as a log. A
/// call with its own file that would wait for writeback returns ::PW_ERROR_DEADLOCK.
///
/// Each call of this function creates a distinct callback, even with equal arguments. To open a
/// file that is already open, use the same options, or options without a callback; with a different
/// callback, ::pw_open fails with ::PW_ERROR_OPTIONS_MISMATCH.
///
/// Errors: ::PW_ERROR_HANDLE. After an error, `release` is not called.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_open_options_set_before_write(
    options: *mut pw_open_options,
    hook: pw_before_write,
    user: *mut c_void,
    release: pw_release_user,
) -> c_int {
    set(options, |opening| {
        opening.hook = hook.map(|function| {
            let hook = Hook::new(function, user, release);
            let hook: Arc<BeforeWrite> = Arc::new(move |page, lsn| hook.call(page, lsn));
            hook
        });
        Ok(())
    })
}

/// Sets a page codec, which transforms the bytes of pages on the way to the backend and back:
/// checksums, encryption, compression within the page.
///
/// The file is then stored in whole pages and can be read only with a matching codec. Users of the
/// cache never see the stored form: `after_read` restores the bytes that `before_write` received.
/// For a checksum or a tag, the program leaves some bytes of each page unused, for example zero;
/// `before_write` replaces them, and `after_read` restores them. Unlike a callback, a codec does
/// not open files for writing, since readers need it, too.
///
/// `before_write`, `after_read`: the two functions of the codec, or null for no codec. `hole`:
/// null, or the function that is called for a page whose stored bytes are all zeros, since it was
/// never written or was entirely lost; without this function, such a page reads as zeros. `user`,
/// `release`: as for ::pw_open_options_set_before_write; without a codec, `release` is not called.
///
/// `before_write` is called by the thread, of the program or of the cache, that writes the file
/// back: for one file, by one thread at a time. The writeback callback
/// (::pw_open_options_set_before_write), if any, is called first for each dirty page, but not for a
/// rewrite of the last page that only removes bytes past the end of the file. `after_read` and
/// `hole` are called by threads of the program that need a page that is not cached, and by threads
/// of the cache; several threads may call them at once. A thread that opens the file for writing or
/// extends it may call `after_read` and `before_write`, too. Threads that need the page wait until
/// the function has returned.
///
/// None of these functions may make a call with any cache that might wait: such a call returns
/// ::PW_ERROR_DEADLOCK. A read or view within one page is allowed if the page is cached, its
/// accessed bit is set (::pw_read), and no thread is changing the page. A pin of such a page may
/// succeed. ::pw_close of the handle through which a call needs the page returns ::PW_ERROR_BUSY.
///
/// Each call of this function creates a distinct codec. To open a file that is already open, the
/// rule of ::pw_open_options_set_before_write applies: with a different codec, ::pw_open fails with
/// ::PW_ERROR_OPTIONS_MISMATCH.
///
/// Errors: ::PW_ERROR_HANDLE; ::PW_ERROR_ARGUMENT if only one of `before_write` and `after_read` is
/// null, or both are null and `hole` is not. After an error, `release` is not called.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_open_options_set_page_hooks(
    options: *mut pw_open_options,
    before_write: pw_before_write_pages,
    after_read: pw_after_read,
    hole: pw_hole,
    user: *mut c_void,
    release: pw_release_user,
) -> c_int {
    set(options, |opening| {
        opening.page_hooks = match (before_write, after_read, hole) {
            (Some(before_write), Some(after_read), hole) => Some(Arc::new(HooksOnBytes::new(
                before_write,
                after_read,
                hole,
                user,
                release,
            ))),
            (None, None, None) => None,
            _ => {
                return Err(Failure::argument(
                    "a page codec requires before_write and after_read, or none of its functions",
                ));
            }
        };
        Ok(())
    })
}

fn open_options(flags: c_int, opening: Opening) -> Result<OpenOptions> {
    if flags & !ALL_FLAGS != 0 {
        return Err(Failure::unknown("flags", flags));
    }
    let has = |flag| flags & flag != 0;
    if has(PW_OPEN_CREATE_NEW) && has(PW_OPEN_TRUNCATE) {
        return Err(Failure::argument(
            "PW_OPEN_TRUNCATE and PW_OPEN_CREATE_NEW exclude each other",
        ));
    }
    let mut options = OpenOptions::new();
    if has(PW_OPEN_WRITE) {
        options = options.write();
    }
    if has(PW_OPEN_CREATE) {
        options = options.create();
    }
    if has(PW_OPEN_CREATE_NEW) {
        options = options.create_new();
    }
    if has(PW_OPEN_TRUNCATE) {
        options = options.truncate();
    }
    if has(PW_OPEN_MANUAL) {
        options = options.writeback(Writeback::Manual);
    }
    if has(PW_OPEN_DIRECT) {
        options = options.direct(Direct::Auto);
    }
    if has(PW_OPEN_DIRECT_ALWAYS) {
        options = options.direct(Direct::Always);
    }
    if let Some(bytes) = opening.page_size {
        options = options.page_size(bytes);
    }
    if let Some(bits) = opening.mode {
        options = options.mode(bits);
    }
    if let Some(hook) = opening.hook {
        options = options.before_write_shared(hook);
    }
    if let Some(hooks) = opening.page_hooks {
        options = options.page_hooks(hooks);
    }
    Ok(options)
}

/// Opens a file. All handles of one file share its pages, whatever name the file was opened by.
///
/// `path`: as for `open`, in any encoding. `flags`: 0 for reading only, or any of `PW_OPEN_...`.
/// `options`: null for the defaults. `file`: receives the handle; closed with ::pw_close.
///
/// Errors: ::PW_ERROR_NOT_FOUND, ::PW_ERROR_PERMISSION, ::PW_ERROR_PATH, ::PW_ERROR_NOT_A_FILE,
/// ::PW_ERROR_SYSTEM_LIMIT, ::PW_ERROR_OUT_OF_MEMORY and ::PW_ERROR_IO as the system reports them;
/// ::PW_ERROR_EXISTS with ::PW_OPEN_CREATE_NEW; ::PW_ERROR_AMBIGUOUS_FILE,
/// ::PW_ERROR_FILE_TOO_LARGE, ::PW_ERROR_PAGE_SIZE; ::PW_ERROR_CONFIG if the cache is too small for
/// the page size; ::PW_ERROR_OUT_OF_FRAMES if the cache has no memory left for the data of an open
/// file; ::PW_ERROR_PAGE_SIZE_MISMATCH, ::PW_ERROR_OPTIONS_MISMATCH, ::PW_ERROR_OPEN_ELSEWHERE;
/// ::PW_ERROR_CORRUPT if the stored size is not valid for a file with a page codec;
/// ::PW_ERROR_DEADLOCK in a page codec, or with ::PW_OPEN_TRUNCATE in a callback of the file;
/// ::PW_ERROR_UNAVAILABLE, ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT, ::PW_ERROR_LIMIT if 65535
/// handles of files are open.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_open(
    cache: *mut pw_cache,
    path: *const c_char,
    flags: c_int,
    options: *const pw_open_options,
    file: *mut *mut pw_file,
) -> c_int {
    call_with::<OpenCache>(cache as u64, || {
        needed(file)?;
        let cache = used_counted::<OpenCache>(cache as u64)?;
        // SAFETY: by the header, null, or a string.
        let path = unsafe { checked_path(path) }?;
        let opening = if options.is_null() {
            Opening::default()
        } else {
            let options = used_counted::<OpenFileOptions>(options as u64)?;
            let opening = options.0.lock().unwrap_or_else(PoisonError::into_inner);
            opening.clone()
        };
        let options = open_options(flags, opening)?;
        // Reserved before the open, which may create or truncate the file.
        let slot = reserve::<OpenFile>()?;
        let opened = cache.0.open_with(path, &options)?;
        let handle = slot.fill(Box::new(OpenFile::new(opened)));
        // SAFETY: by the header, null, or valid for writes.
        unsafe { answer(file, handle as *mut _) }
    })
}

/// Creates another handle of the same open file, with the same access mode. Each handle has its own
/// readahead streams and its own advice, and each writeback failure is reported to every handle.
///
/// `other`: receives the handle; closed with ::pw_close.
///
/// Errors: ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT, ::PW_ERROR_LIMIT.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_dup(file: *mut pw_file, other: *mut *mut pw_file) -> c_int {
    call_with::<OpenFile>(file as u64, || {
        needed(other)?;
        let file = used_counted::<OpenFile>(file as u64)?;
        let handle = add(OpenFile::new(file.file().clone()))?;
        // SAFETY: by the header, null, or valid for writes.
        unsafe { answer(other, handle as *mut _) }
    })
}

/// Closes the handle. If it is open for writing, or is the last handle of the file, all writes to
/// the file are first made durable. If the backend, callback or page codec fails, the close is
/// retried, by default for one second (::pw_cache_options_set_close_timeout).
///
/// After an error other than ::PW_ERROR_PANIC the handle is unchanged, and no data is lost. Retry
/// when the backend works again.
///
/// Errors: ::PW_ERROR_BUSY at once if pages are pinned or edited by this handle, requests with it
/// are in flight, or a call with it is in progress; those of ::pw_sync_all; ::PW_ERROR_UNAVAILABLE
/// if the system now refuses `membarrier(2)`, which it has granted before; ::PW_ERROR_HANDLE.
///
/// Threads: any. A concurrent call with the handle by another thread takes effect, or returns
/// ::PW_ERROR_BUSY or ::PW_ERROR_HANDLE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_close(file: *mut pw_file) -> c_int {
    call_with::<OpenFile>(file as u64, || {
        let mut taken = take::<OpenFile>(file as u64)?;
        if is_pinned(file as u64) {
            return Err(Failure::Ours(
                PW_ERROR_BUSY,
                "the file's handle has pinned pages".into(),
            ));
        }
        taken.object().close()?;
        drop(taken.end());
        Ok(())
    })
}

/// Information about a file: ::pw_file_info.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(non_camel_case_types)]
pub struct pw_file_info {
    /// Size of the file in bytes, as the cache knows it.
    pub size: i64,
    /// Page size in bytes.
    pub page_size: u64,
    /// Alignment in bytes of direct I/O; 0 if transfers go through the operating system's cache.
    pub direct_alignment: u64,
    /// Number of dirty pages, whose bytes were not written to the backend yet.
    pub nr_dirty: u64,
    /// Number of unsynced pages: submitted to the backend, and not known to be durable.
    pub nr_written: u64,
    /// Reserved; always 0.
    pub reserved: u64,
    /// Lower bound of the log sequence numbers of all writes that have returned and are not
    /// durable: recovery may begin there. Writes without a number are not counted. `UINT64_MAX` if
    /// there is no such write.
    pub oldest_lsn: u64,
}

/// Returns information about a file, including the number of pages that are not durable.
///
/// `info`: receives it. `size`: `sizeof(struct pw_file_info)`, as for ::pw_cache_stats.
///
/// Errors: ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_file_info(
    file: *mut pw_file,
    info: *mut pw_file_info,
    size: usize,
) -> c_int {
    call_with::<OpenFile>(file as u64, || {
        let used = used_counted::<OpenFile>(file as u64)?;
        let file = used.file();
        let stats = file.stats();
        let value = pw_file_info {
            size: signed(file.size()),
            page_size: file.page_size() as u64,
            direct_alignment: match file.transfers() {
                Some(Transfers::Direct { alignment }) => alignment as u64,
                _ => 0,
            },
            nr_dirty: stats.nr_dirty as u64,
            nr_written: stats.nr_written as u64,
            reserved: 0,
            oldest_lsn: stats.oldest_lsn.unwrap_or(u64::MAX),
        };
        // SAFETY: by the header, null, or valid for writes of `size` bytes; 64-bit integers.
        unsafe { answer_sized(info, size, value) }
    })
}

/// Returns in `size` the size of the file in bytes, as the cache knows it.
///
/// Errors: ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_size(file: *mut pw_file, size: *mut i64) -> c_int {
    call_with::<OpenFile>(file as u64, || {
        let now = with(file as u64, |file: &OpenFile| Ok(file.file().size()))?;
        // SAFETY: by the header, null, or valid for writes.
        unsafe { answer(size, signed(now)) }
    })
}

/// Queries the backend for the present size of a file that was changed outside the cache, and uses
/// this size from then on. Removes the cached pages that the change has made invalid. If this cache
/// has the file open for writing, this function changes nothing, and returns the recorded size.
///
/// `size`: null, or receives the size.
///
/// Errors: ::PW_ERROR_IO, ::PW_ERROR_FILE_TOO_LARGE if the file is now larger than 64 MiB plus four
/// times its size at the open, or in a process with few addresses, plus its size at the open (close
/// all its handles, and open it again); ::PW_ERROR_CORRUPT if the stored size is not valid for a
/// file with a page codec; ::PW_ERROR_DEADLOCK in a page codec, ::PW_ERROR_HANDLE.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_refresh(file: *mut pw_file, size: *mut i64) -> c_int {
    call_with::<OpenFile>(file as u64, || {
        let now = used_counted::<OpenFile>(file as u64)?.file().refresh()?;
        if size.is_null() {
            return Ok(());
        }
        // SAFETY: by the header, valid for writes.
        unsafe { answer(size, signed(now)) }
    })
}
