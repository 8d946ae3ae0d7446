//! Files: how they are opened and closed, and what is known of them.
//!
//! - Owns: `pw_file`, `pw_open_options`.
//! - Calls: `error`, `entry`, `handles`, `arguments`, `cache`, `pins`, `hooks`.
//! - Promises: a file is closed only when nobody uses its handle: no call, no pin, no edit, no request.

use std::ffi::{c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, PoisonError};

use library::io::{Direct, Transfers};
use library::{BeforeWrite, File, OpenOptions, PageHooks, Writeback};

use crate::arguments::{answer, answer_sized, needed, path as checked_path, signed};
use crate::cache::{OpenCache, pw_cache};
use crate::entry::{call, call_with};
use crate::error::pw_error::*;
use crate::error::{Failure, Result};
use crate::handles::{add, tables, take, used_counted, with};
use crate::hooks::{
    Hook, HooksOnBytes, pw_after_read, pw_before_write, pw_before_write_pages, pw_hole,
    pw_release_user,
};
use crate::pins::is_pinned;

/// An open file. A handle; what it points to is not an address.
#[allow(non_camel_case_types)]
pub struct pw_file {
    _opaque: (),
}

/// How a file is opened, beside the flags. A handle; what it points to is not an address.
#[allow(non_camel_case_types)]
pub struct pw_open_options {
    _opaque: (),
}

/// The file, always but while it is being closed, by whoever is alone with it; and after a close that has panicked.
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

    /// Only for who has found the handle open: then the file is here.
    #[inline(always)]
    pub(crate) fn file(&self) -> &File {
        &self.0
    }

    /// Closes it; nothing if it has gone.
    fn close(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.1, Presence::Gone) == Presence::Gone {
            return Ok(());
        }
        // SAFETY: it is here, and is not used from now on, as it has gone; until it is put back.
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
            // SAFETY: it is here, and nothing is used after this.
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
    OpenFile: 4, "file", 65536;
    OpenFileOptions: 5, "open options", 4096;
}

/// Open for writing too. Without it, for reading only. Only one process can have a file open for writing.
pub const PW_OPEN_WRITE: c_int = 1;
/// Open for writing, and create the file if there is none.
pub const PW_OPEN_CREATE: c_int = 2;
/// Open for writing, and create the file; fail if it exists.
pub const PW_OPEN_CREATE_NEW: c_int = 4;
/// Open for writing, and empty the file.
pub const PW_OPEN_TRUNCATE: c_int = 8;
/// Past the operating system's cache, where the file system can do that: ::pw_file_info says what has come of it.
pub const PW_OPEN_DIRECT: c_int = 16;
/// Past the operating system's cache, or ::PW_ERROR_UNAVAILABLE.
pub const PW_OPEN_DIRECT_ALWAYS: c_int = 32;
/// Open for writing, and write dirty pages only when the program asks for it; else they are written soon, in the background.
pub const PW_OPEN_MANUAL: c_int = 64;

/// All flags.
const ALL_FLAGS: c_int = PW_OPEN_WRITE
    | PW_OPEN_CREATE
    | PW_OPEN_CREATE_NEW
    | PW_OPEN_TRUNCATE
    | PW_OPEN_DIRECT
    | PW_OPEN_DIRECT_ALWAYS
    | PW_OPEN_MANUAL;

/// Changes a setting.
fn set(options: *mut pw_open_options, change: impl FnOnce(&mut Opening) -> Result<()>) -> c_int {
    call_with::<OpenFileOptions>(options as u64, || {
        let options = used_counted::<OpenFileOptions>(options as u64)?;
        let mut opening = options.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut opening)
    })
}

/// Makes options for files, all of them at their defaults. They may be used for any number of files, also of several caches.
///
/// `options`: gets the handle, to be given back with ::pw_open_options_free.
///
/// Errors: ::PW_ERROR_ARGUMENT, ::PW_ERROR_LIMIT after 4095 of them.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_open_options_new(options: *mut *mut pw_open_options) -> c_int {
    call(|| {
        needed(options)?;
        let handle = add(OpenFileOptions(Mutex::default()))?;
        // SAFETY: the caller's duty: null, or good for writes.
        unsafe { answer(options, handle as *mut _) }
    })
}

/// Gives options back. Files that were opened with them stay as they are, and keep their hook.
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

/// The size of the file's pages: 4096, 8192, 16384, 32768 or 65536 bytes, or 0 for that of the open file, or else the cache's, which is the default.
/// ::pw_open checks it.
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

/// The permissions of a file that is created, as `open` has them: those of the process's mask (`umask`) are taken away. The default is 0666; a file that is there keeps its own.
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

/// A hook that is called before a page of the file is given to the storage, for write-ahead logs: it makes the log durable up to the page's log
/// sequence number, or refuses the page. It makes the options such for writing.
///
/// `hook`: the function; null for none. `user`: what it is called with.
///
/// `release`: null, or is called with `user` once nobody calls the hook any more: neither these options nor a file have it.
///
/// Who calls the hook: a thread that asks for this very file (flush, sync, a close; with page
/// hooks also a new size or a write past the end), or a thread of the
/// cache; several at once. No reader does. It may use other files of the cache, a log for example. Of its own file it must not ask for anything that
/// waits for writing back: that is ::PW_ERROR_DEADLOCK.
///
/// Each call of this function makes another hook. To open a file a second time while it is open, use the same options, or options without a
/// hook; with another one ::pw_open fails with ::PW_ERROR_OPTIONS_MISMATCH.
///
/// Errors: ::PW_ERROR_HANDLE; then `release` is not called.
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

/// Hooks on the bytes of pages, on their way to the storage and back: checksums, encryption, compression within the page.
///
/// The file is stored in whole pages then, and only who opens it with hooks that fit reads it well. Who uses the cache never sees what is stored: `after_read` gives
/// back the bytes that `before_write` was given. Room for a checksum or a tag is in the page: the program leaves some bytes of each page alone, zeros for
/// example, which `before_write` replaces and `after_read` restores. It makes no options for writing: readers need the hooks as well.
///
/// `before_write`, `after_read`: the functions; both null for none. `hole`: null, or is asked of pages of which the storage has zeros only, which nobody has written or of which everything
/// was lost; without it they are zeros. `user`: what they are called with.
///
/// `release`: null, or is called with `user` once nobody calls the hooks any more: neither these options nor a file have them.
///
/// Who calls them: `before_write` whoever writes the file back, a thread of the program or of the cache, one at a time for a file; after the hook of
/// ::pw_open_options_set_before_write, if there is one too. `after_read` and `hole` the thread that has missed a page, or one of the cache, several at once. They keep who wants the
/// page waiting, and must not use any cache in a way that may wait: that is ::PW_ERROR_DEADLOCK. Calls with the file that hit are fine, but for ::pw_close, which is ::PW_ERROR_BUSY.
///
/// Each call of this function makes other hooks. To open a file a second time while it is open, use the same options, or options without hooks; with others ::pw_open fails
/// with ::PW_ERROR_OPTIONS_MISMATCH.
///
/// Errors: ::PW_ERROR_HANDLE; ::PW_ERROR_ARGUMENT if one of `before_write` and `after_read` is null, or both are and `hole` is not; then `release` is not called.
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
                    "hooks on bytes are two functions, or none",
                ));
            }
        };
        Ok(())
    })
}

/// The options of the library that flags and options make.
fn open_options(flags: c_int, opening: Opening) -> Result<OpenOptions> {
    if flags & !ALL_FLAGS != 0 {
        return Err(Failure::unknown("flags", flags));
    }
    let has = |flag| flags & flag != 0;
    if has(PW_OPEN_CREATE_NEW) && has(PW_OPEN_TRUNCATE) {
        return Err(Failure::argument(
            "a new file is empty: no PW_OPEN_TRUNCATE with PW_OPEN_CREATE_NEW",
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

/// Opens a file. All handles of one file share its pages, whatever name it was opened by.
///
/// `path`: as the system has it, in any encoding. `flags`: 0 for reading only, or any of `PW_OPEN_...`. `options`: null for the defaults.
///
/// `file`: gets the handle, to be given back with ::pw_close.
///
/// Errors: ::PW_ERROR_NOT_FOUND, ::PW_ERROR_PERMISSION, ::PW_ERROR_PATH, ::PW_ERROR_NOT_A_FILE, ::PW_ERROR_SYSTEM_LIMIT and ::PW_ERROR_IO as the system says;
/// ::PW_ERROR_EXISTS with ::PW_OPEN_CREATE_NEW; ::PW_ERROR_AMBIGUOUS_FILE when the file system gives it the number of another file that is open; ::PW_ERROR_FILE_TOO_LARGE, ::PW_ERROR_PAGE_SIZE; ::PW_ERROR_PAGE_SIZE_MISMATCH and ::PW_ERROR_OPTIONS_MISMATCH when the file is
/// open, and has others; ::PW_ERROR_OPEN_ELSEWHERE when others have it open for writing, or this cache has it open for reading only;
/// ::PW_ERROR_UNAVAILABLE, ::PW_ERROR_FORKED, ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT, ::PW_ERROR_LIMIT after 65535 files.
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
        // SAFETY: the caller's duty: null, or a text.
        let path = unsafe { checked_path(path) }?;
        let opening = if options.is_null() {
            Opening::default()
        } else {
            let options = used_counted::<OpenFileOptions>(options as u64)?;
            let opening = options.0.lock().unwrap_or_else(PoisonError::into_inner);
            opening.clone()
        };
        let opened = cache.0.open_with(path, &open_options(flags, opening)?)?;
        let handle = add(OpenFile::new(opened))?;
        // SAFETY: the caller's duty: null, or good for writes.
        unsafe { answer(file, handle as *mut _) }
    })
}

/// Another handle of the same open file, which may do what the first may. Each handle has its own streams of reading ahead, its own advice, and is told of each
/// failure to write back.
///
/// `file`: the first handle. `other`: gets the new one, to be given back with ::pw_close.
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
        // SAFETY: the caller's duty: null, or good for writes.
        unsafe { answer(other, handle as *mut _) }
    })
}

/// Makes everything durable that was written, if the file is open for writing, and gives the handle up. If the storage, or the hook, fails, it tries
/// again for a second (::pw_cache_options_set_close_timeout).
///
/// If this fails the handle is as it was, and nothing is lost: close it again when the storage works. A program that ends without closing loses what
/// was not synced.
///
/// Errors: ::PW_ERROR_BUSY at once, and nothing was done, while pages are pinned or edited by this handle, requests with it are on their way, or another thread is in a
/// call with it; those of ::pw_sync_all; ::PW_ERROR_UNAVAILABLE if the system refuses `membarrier(2)` after it has granted it; ::PW_ERROR_FORKED, ::PW_ERROR_HANDLE.
///
/// Threads: any. A call of another thread with the handle has its effect, or ::PW_ERROR_BUSY or ::PW_ERROR_HANDLE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_close(file: *mut pw_file) -> c_int {
    call_with::<OpenFile>(file as u64, || {
        let mut taken = take::<OpenFile>(file as u64)?;
        if is_pinned(file as u64) {
            return Err(Failure::Ours(
                PW_ERROR_BUSY,
                "pages are pinned by the file's handle".into(),
            ));
        }
        taken.object().close()?;
        drop(taken.end());
        Ok(())
    })
}

/// What is known of a file: ::pw_file_info.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(non_camel_case_types)]
pub struct pw_file_info {
    /// The size of the file in bytes, as far as the cache knows.
    pub size: i64,
    /// The size of its pages in bytes.
    pub page_size: u64,
    /// To what transfers past the operating system's cache are aligned, in bytes; 0 if they go through that cache.
    pub direct_alignment: u64,
    /// How many pages have bytes that the storage was not given.
    pub nr_dirty: u64,
    /// How many pages the storage was given, and has not reported durable.
    pub nr_written: u64,
    /// Not used: 0.
    pub reserved: u64,
    /// Of all writes with a log sequence number that have returned and are not durable, none has a lower number: recovery may begin here.
    /// `UINT64_MAX` if there is no such write.
    pub oldest_lsn: u64,
}

/// What is known of a file, and what of it is not durable.
///
/// `info`: is filled in. `size`: `sizeof(struct pw_file_info)`; so a program works with a later library, whose structure has more fields at its end.
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
        // SAFETY: the caller's duty: null, or good for writes of `size` bytes; seven integers of 64 bits.
        unsafe { answer_sized(info, size, value) }
    })
}

/// The size of the file in bytes, as far as the cache knows.
///
/// `size`: gets it.
///
/// Errors: ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_size(file: *mut pw_file, size: *mut i64) -> c_int {
    call_with::<OpenFile>(file as u64, || {
        let now = with(file as u64, |file: &OpenFile| Ok(file.file().size()))?;
        // SAFETY: the caller's duty: null, or good for writes.
        unsafe { answer(size, signed(now)) }
    })
}

/// Reads the file's present size from the storage, and adopts it: for a file that others change. Pages that a change of size has made wrong are dropped.
///
/// `size`: null, or gets it.
///
/// Errors: ::PW_ERROR_IO, ::PW_ERROR_FILE_TOO_LARGE when the file has grown to more than four times the size that it was opened with, and by more than 64 MiB (close all
/// its handles, and open it anew); ::PW_ERROR_FORKED, ::PW_ERROR_HANDLE.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_refresh(file: *mut pw_file, size: *mut i64) -> c_int {
    call_with::<OpenFile>(file as u64, || {
        let now = used_counted::<OpenFile>(file as u64)?.file().refresh()?;
        if size.is_null() {
            return Ok(());
        }
        // SAFETY: the caller's duty: good for writes.
        unsafe { answer(size, signed(now)) }
    })
}
