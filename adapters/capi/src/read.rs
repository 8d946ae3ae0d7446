//! Reads, pins, views and advice.
//!
//! - Owns: `pw_view`, `pw_read_request`, `pw_range`, `pw_advice`.
//! - Calls: `error`, `entry`, `handles`, `arguments`, `file`, `pins`.
//! - Promises: in a thread with a hazard slot, a read or view that hits a page whose accessed bit
//!   is set writes no shared memory, unless the page keeps changing.

use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::sync::atomic::{Ordering, fence};

use library::{Advice, PageGuard, ReadRequest, Token, TokenState, Torn, View};

use crate::arguments::{
    answer, buffer, items, items_to_read, needed, offset as checked_offset, range, structure,
    structure_to_read, with_room,
};
use crate::entry::{call, call_with, is_test};
use crate::error::pw_error::*;
use crate::error::{Failure, Result};
use crate::file::{OpenFile, pw_file};
use crate::handles::{check_process, with, with_shortly};
use crate::pins::{self, Pinned, pw_page};

/// Reads bytes of a file. Reads of cached pages acquire no lock. A read that finds a page in the
/// cache sets its accessed bit (but see ::PW_ADVICE_ONCE). Once this bit is set, reads write no
/// shared memory, unless the page keeps changing, the call is in a page codec, more than 1024
/// threads use files, or the system lacks `membarrier(2)`. For each page, a read is atomic: it
/// returns the bytes that the page had at one moment.
///
/// `buf`: receives the bytes; may be null if `size` is 0. `offset`: the position in the file.
///
/// `nr_read`: receives the number of bytes read: `size`, or fewer if the file ends, 0 at or past
/// the end. If a page cannot be read after others were, only the bytes before it are counted; a
/// read that begins there reports the error. The remaining bytes of `buf` are unspecified, also
/// after an error.
///
/// Errors: ::PW_ERROR_IO, ::PW_ERROR_CORRUPT if the page codec refuses a page, ::PW_ERROR_TRUNCATED
/// if the file was truncated outside the cache, ::PW_ERROR_OUT_OF_FRAMES if no frame can be freed,
/// ::PW_ERROR_TOO_MANY_PINS, ::PW_ERROR_DEADLOCK in a page codec, ::PW_ERROR_HANDLE,
/// ::PW_ERROR_ARGUMENT.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_read(
    file: *mut pw_file,
    buf: *mut c_void,
    size: usize,
    offset: i64,
    nr_read: *mut usize,
) -> c_int {
    // A hit only publishes its call in the thread's hazard slot, and cannot panic. A negative
    // offset, cast to an unsigned one, is past the end of any file, and so no hit.
    if size != 0 && size <= SHORT && !buf.is_null() && !nr_read.is_null() {
        // SAFETY: by the header, valid for writes of `size` bytes by this call alone.
        let short = unsafe { std::slice::from_raw_parts_mut(buf.cast::<u8>(), size) };
        let is_hit = with_shortly(file as u64, |file: &OpenFile, _| {
            file.file().try_read_at(short, offset as u64)
        });
        if is_hit == Some(true) && !is_test() {
            // SAFETY: by the header, valid for writes.
            unsafe { nr_read.write_unaligned(size) };
            return PW_OK as c_int;
        }
    }
    // SAFETY: the same obligations.
    unsafe { read_any(file, buf, size, offset, nr_read) }
}

/// Maximum length, in bytes, of a read that is first tried as a hit.
const SHORT: usize = 64;

#[inline(never)]
unsafe fn read_any(
    file: *mut pw_file,
    buf: *mut c_void,
    size: usize,
    offset: i64,
    nr_read: *mut usize,
) -> c_int {
    call_with::<OpenFile>(file as u64, || {
        needed(nr_read)?;
        // SAFETY: by the header, null, or valid for writes of `size` bytes by this call alone.
        let buf = unsafe { buffer(buf, size) }?;
        let offset = checked_offset(offset)?;
        let nr = with(file as u64, |file: &OpenFile| {
            Ok(file.file().read_at(buf, offset)?)
        })?;
        // SAFETY: by the header, valid for writes.
        unsafe { answer(nr_read, nr) }
    })
}

/// One read of a batch: ::pw_read_many.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)]
pub struct pw_read_request {
    /// Buffer to read into. Buffers of one call may not overlap.
    pub buf: *mut c_void,
    /// Number of bytes to read.
    pub size: usize,
    /// Position in the file.
    pub offset: i64,
    /// Receives the number of bytes read, as `nr_read` of ::pw_read.
    pub nr_read: usize,
    /// Receives ::PW_OK, or the code of the error if nothing was read.
    pub error: c_int,
}

fn overlap(requests: &[pw_read_request]) -> Result<bool> {
    let ends =
        |request: &pw_read_request| (request.buf as usize, request.buf as usize + request.size);
    // Most programs pass the buffers in ascending order.
    let in_order = requests
        .windows(2)
        .all(|two| ends(&two[0]).1 <= ends(&two[1]).0);
    if in_order {
        return Ok(false);
    }
    let mut ranges = with_room(requests.len())?;
    let not_empty = requests.iter().filter(|request| request.size != 0);
    ranges.extend(not_empty.map(ends));
    ranges.sort_unstable();
    Ok(ranges.windows(2).any(|two| two[0].1 > two[1].0))
}

/// Performs many reads, each as ::pw_read, in any order. The memory accesses of up to sixteen reads
/// of cached pages overlap. Missing pages are read from the file concurrently: as many at once as
/// the engine accepts, and at most as many as fit in an eighth of the cache.
///
/// `requests`: an array of `count` requests. The call sets `nr_read` and `error` of each.
///
/// Errors: the first error of a request, whose message ::pw_last_error returns; the other requests
/// are performed nevertheless. ::PW_ERROR_ARGUMENT if `requests` or a buffer is null or too large,
/// two buffers overlap, or an offset is negative; ::PW_ERROR_OUT_OF_MEMORY if there is no memory
/// for a list of the requests. After these two and ::PW_ERROR_HANDLE, nothing was done.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_read_many(
    file: *mut pw_file,
    requests: *mut pw_read_request,
    count: usize,
) -> c_int {
    call_with::<OpenFile>(file as u64, || {
        // SAFETY: by the header, null, or `count` items that only this call uses.
        let requests = unsafe { items(requests, count) }?;
        for request in &*requests {
            // SAFETY: only checked here, and not accessed.
            unsafe { buffer(request.buf, request.size) }?;
            checked_offset(request.offset)?;
        }
        if overlap(requests)? {
            return Err(Failure::argument("two buffers overlap"));
        }
        let mut reads = with_room(requests.len())?;
        for request in &*requests {
            // SAFETY: by the header, valid for writes of `size` bytes. No two buffers overlap.
            let buf = unsafe { buffer(request.buf, request.size) }?;
            reads.push(ReadRequest::new(checked_offset(request.offset)?, buf));
        }
        with(file as u64, |file: &OpenFile| {
            file.file().read_many(&mut reads);
            Ok(())
        })?;
        let mut first = None;
        for (request, read) in requests.iter_mut().zip(reads) {
            (request.nr_read, request.error) = match read.result {
                Ok(nr) => (nr, PW_OK as c_int),
                Err(error) => {
                    let failure = Failure::from(error);
                    let code = failure.code() as c_int;
                    first.get_or_insert(failure);
                    (0, code)
                }
            };
        }
        first.map_or(Ok(()), Err)
    })
}

/// Pins a page, so that its bytes can be read in place. While the page is pinned, its bytes stay in
/// memory and do not change, whatever is written to the file.
///
/// `page`: receives the pinned page, which ::pw_unpin releases.
///
/// Errors: ::PW_ERROR_OUT_OF_RANGE, ::PW_ERROR_LIMIT if this thread has no free slot for a pin and
/// all 1048576 are allocated, and those of ::pw_read.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_pin(file: *mut pw_file, page_number: u64, page: *mut pw_page) -> c_int {
    // First tried as a hit, as in `pw_read`.
    if !page.is_null() && !is_test() {
        let handle = file as u64;
        let kept = with_shortly(handle, |file: &OpenFile, line| {
            let pin = || {
                let guard = file.file().try_pin(page_number)?;
                // SAFETY: as in `pin_any`.
                Some(unsafe { transmute::<PageGuard<'_>, PageGuard<'static>>(guard) })
            };
            // SAFETY: (a) a guard of this file, in a call with it; (b) `line` is this thread's.
            unsafe { pins::keep_shortly(line, handle, page_number, pin) }
        });
        if let Some(Some(kept)) = kept {
            // SAFETY: by the header, valid for writes.
            unsafe { page.write_unaligned(kept) };
            return PW_OK as c_int;
        }
    }
    // SAFETY: the same obligations.
    unsafe { pin_any(file, page_number, page) }
}

#[inline(never)]
unsafe fn pin_any(file: *mut pw_file, page_number: u64, page: *mut pw_page) -> c_int {
    call_with::<OpenFile>(file as u64, || {
        needed(page)?;
        let handle = file as u64;
        let kept = with(handle, |file: &OpenFile| {
            let guard = file.file().pin(page_number)?;
            // SAFETY: only the lifetime changes. A pin slot contains the guard until it is dropped,
            // and a thread that closes the file gives up if it finds a pin of the file in a slot.
            let guard = unsafe { transmute::<PageGuard<'_>, PageGuard<'static>>(guard) };
            // SAFETY: (a) the guard is of this file, with which this call is in progress.
            unsafe { pins::keep(handle, page_number, Pinned::OfFile(guard)) }
        })?;
        // SAFETY: by the header, valid for writes.
        unsafe { answer(page, kept) }
    })
}

/// Releases a pinned page. Its bytes must not be used any more.
///
/// `page`: the structure that ::pw_pin has filled in, the page of a completion (::pw_submit_pin),
/// or a copy of either. The call clears it.
///
/// Errors: ::PW_ERROR_HANDLE if the pin was already released, ::PW_ERROR_ARGUMENT.
///
/// Threads: any, not only the one that pinned the page.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_unpin(page: *mut pw_page) -> c_int {
    call(|| {
        // SAFETY: by the header, null, or valid for reads and writes by this call alone.
        pins::end::<OpenFile>(unsafe { structure(page) }?)
    })
}

/// View of a page in place, without a pin: ::pw_view_begin. The structure may be copied and kept.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)]
pub struct pw_view {
    /// The page's bytes, which **other threads may change at any time**: see ::pw_view_begin.
    pub data: *const c_void,
    /// Number of bytes: the page size, or less in the last page of the file.
    pub size: usize,
    /// Number of the page.
    pub page: u64,
    /// Handle of the file.
    pub file: *mut pw_file,
    /// Internal: the state of the page when the view began.
    pub opaque: [u64; 6],
}

const _: () = assert!(
    size_of::<Token>() <= size_of::<[u64; 6]>() && align_of::<Token>() <= align_of::<u64>()
);

impl pw_view {
    fn new(file: *mut pw_file, (data, size, token): (*const u8, usize, Token)) -> Self {
        let mut opaque = [0; 6];
        // SAFETY: the array has the size and the alignment of a token: see above.
        unsafe { (&raw mut opaque).cast::<Token>().write(token) };
        Self {
            data: data.cast(),
            size,
            page: token.page(),
            file,
            opaque,
        }
    }

    fn token(&self) -> Token {
        // SAFETY: any bits are valid for the integers of a token, which the program may have
        // changed. The library checks whether the page exists and the token is of this file.
        unsafe { (&raw const self.opaque).cast::<Token>().read() }
    }

    #[inline(always)]
    fn validate(&self) -> Result<()> {
        // ORDERING: Acquire; the program's loads from the page come before the validating loads.
        fence(Ordering::Acquire);
        let state = with(self.file as u64, |file: &OpenFile| {
            Ok(file.file().token_state(&self.token()))
        })?;
        match state {
            TokenState::Unchanged => Ok(()),
            TokenState::Busy => {
                // In a child of `fork`, no thread completes the change, and no retry would succeed.
                check_process::<OpenFile>(|| self.file as u64)?;
                Err(Failure::Outcome(PW_ERROR_CHANGING))
            }
            TokenState::Changed => Err(Failure::Outcome(PW_ERROR_CHANGED)),
        }
    }
}

/// Begins a view of a page in place, without a pin. The call copies nothing, and writes no shared
/// memory under the conditions of ::pw_read. After the program has read the bytes,
/// ::pw_view_validate checks whether they were the page's.
///
/// Between the two calls, other threads may change the bytes or put another page there. Therefore:
///
/// - Load the bytes as memory that other threads write to. For integers, use
///   `__atomic_load_n(p, __ATOMIC_RELAXED)` of GCC and Clang, or a `volatile` access; for more,
///   ::pw_view_copy. A plain `memcpy` or `strcmp` is a data race in C.
/// - Do not rely on loaded values before they are validated: check an offset or a length against
///   `size` before use, and bound every loop.
/// - Do not let a loaded value have an effect outside the view (a result, a write, a free) before
///   ::pw_view_validate has returned ::PW_OK.
///
/// The memory is readable as long as the handle is open, whatever happens to the page; after that
/// it must not be read. A view need not be released.
///
/// `view`: is filled in.
///
/// Errors: as ::pw_pin, except ::PW_ERROR_LIMIT.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_view_begin(
    file: *mut pw_file,
    page_number: u64,
    view: *mut pw_view,
) -> c_int {
    // First tried as a hit, as in `pw_read`.
    if !view.is_null() && !is_test() {
        let seen = with_shortly(file as u64, |file: &OpenFile, _| {
            file.file().try_view(page_number, place_and_token)
        });
        if let Some(Some(seen)) = seen {
            // SAFETY: by the header, valid for writes.
            unsafe { view.write_unaligned(pw_view::new(file, seen)) };
            return PW_OK as c_int;
        }
    }
    // SAFETY: the same obligations.
    unsafe { view_any(file, page_number, view) }
}

#[inline(always)]
fn place_and_token(view: &View<'_>) -> std::result::Result<(*const u8, usize, Token), Torn> {
    Ok((view.as_ptr(), view.len(), view.token()))
}

#[inline(never)]
unsafe fn view_any(file: *mut pw_file, page_number: u64, view: *mut pw_view) -> c_int {
    call_with::<OpenFile>(file as u64, || {
        needed(view)?;
        let seen = with(file as u64, |file: &OpenFile| {
            Ok(file.file().view(page_number, place_and_token)?)
        })?;
        // SAFETY: by the header, valid for writes.
        unsafe { answer(view, pw_view::new(file, seen)) }
    })
}

/// Checks whether the page has been unchanged ever since ::pw_view_begin. If so, all bytes loaded
/// from the view are bytes that the page had at the same moment.
///
/// A view may be validated any number of times, at any later time: a program can descend a tree
/// through several pages, and afterwards check that its path was valid. A changed page is never
/// reported as unchanged; an unchanged one is occasionally reported as changed. Writes, eviction,
/// truncation and moves are changes; reads, pins and writeback are not.
///
/// Returns: ::PW_OK if the page is unchanged.
///
/// Errors: ::PW_ERROR_CHANGED; ::PW_ERROR_CHANGING if another thread has exclusive access to the
/// page for a short time and may be changing it: try again; ::PW_ERROR_HANDLE if the file was
/// closed since ::pw_view_begin; ::PW_ERROR_ARGUMENT.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_view_validate(view: *const pw_view) -> c_int {
    // The result for an unchanged page is returned here, as a hit in `pw_read`.
    if !view.is_null() && view.is_aligned() && !is_test() {
        // SAFETY: by the header, valid for reads.
        let view = unsafe { &*view };
        // ORDERING: Acquire, as in `validate`.
        fence(Ordering::Acquire);
        let state = with_shortly(view.file as u64, |file: &OpenFile, _| {
            file.file().token_state(&view.token())
        });
        if state == Some(TokenState::Unchanged) {
            return PW_OK as c_int;
        }
    }
    // SAFETY: the same obligations.
    unsafe { validate_any(view) }
}

#[inline(never)]
unsafe fn validate_any(view: *const pw_view) -> c_int {
    call(|| {
        // SAFETY: by the header, null, or valid for reads.
        let view = unsafe { structure_to_read(view) }?;
        view.validate()
    })
}

/// Copies bytes of a view, and validates it. After ::PW_OK, the page had these bytes at the start
/// of the view, and still had them when the copy was validated.
///
/// `offset`: position in the page. `buf`: receives `size` bytes, unspecified after an error.
///
/// Errors: ::PW_ERROR_ARGUMENT if the bytes are not all in the view; those of ::pw_view_validate;
/// and those of ::pw_view_begin, since the call looks the page up again: it never copies memory
/// that no longer belongs to the page.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_view_copy(
    view: *const pw_view,
    offset: usize,
    buf: *mut c_void,
    size: usize,
) -> c_int {
    call(|| {
        // SAFETY: by the header, null, or valid for reads.
        let view = unsafe { structure_to_read(view) }?;
        // SAFETY: by the header, null, or valid for writes of `size` bytes by this call alone.
        let buf = unsafe { buffer(buf, size) }?;
        let token = view.token();
        let is_within = offset.checked_add(size).is_some_and(|end| end <= view.size);
        if !is_within {
            return Err(Failure::argument("the bytes are not all in the view"));
        }
        // Validated before the lookup, which would fill an evicted page for an invalid view.
        view.validate()?;
        let copied = with(view.file as u64, |file: &OpenFile| {
            let copy = |v: &View<'_>| v.copy_to(offset, buf);
            Ok(file.file().view(token.page(), copy)?)
        });
        // A change of the page, such as a truncation, may be why the copy failed: report it.
        view.validate()?;
        copied
    })
}

/// Range of bytes of a file: ::pw_prefetch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)]
pub struct pw_range {
    /// Position of the first byte.
    pub offset: i64,
    /// Number of bytes; 0 extends to the end.
    pub length: i64,
}

/// Expected access pattern: ::pw_advise.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types)]
pub enum pw_advice {
    /// No particular pattern, the default: readahead after misses at a constant distance.
    PW_ADVICE_NORMAL = 0,
    /// Sequential: twice as much is read ahead as by default, from the first miss on.
    PW_ADVICE_SEQUENTIAL = 1,
    /// Random: nothing is read ahead.
    PW_ADVICE_RANDOM = 2,
    /// Once: the first read of a page by this handle does not make its eviction less likely.
    PW_ADVICE_ONCE = 3,
    /// Needed soon: submits reads of the pages that are not cached, without waiting for them.
    PW_ADVICE_SOON = 4,
    /// Not needed soon: removes the pages from the cache, except those that ::pw_invalidate keeps.
    PW_ADVICE_NOT_SOON = 5,
}

/// Sets the expected access pattern, as `posix_fadvise`. The first four values of ::pw_advice apply
/// to the handle, whatever the range, until another of these four is set. The last two apply to the
/// pages of the range, at once.
///
/// `offset`, `length`: the bytes; a length of 0 extends to the end. `advice`: one of ::pw_advice.
///
/// Errors: ::PW_ERROR_ARGUMENT, ::PW_ERROR_HANDLE, ::PW_ERROR_DEADLOCK in a page codec.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_advise(
    file: *mut pw_file,
    offset: i64,
    length: i64,
    advice: c_int,
) -> c_int {
    call_with::<OpenFile>(file as u64, || {
        let advice = match advice {
            0 => Advice::Normal,
            1 => Advice::Sequential,
            2 => Advice::Random,
            3 => Advice::Once,
            4 => Advice::Soon,
            5 => Advice::NotSoon,
            _ => return Err(Failure::unknown("advice", advice)),
        };
        let range = range(offset, length)?;
        with(file as u64, |file: &OpenFile| {
            Ok(file.file().advise(range, advice)?)
        })
    })
}

/// Submits reads of the missing pages of several ranges, all at once, without waiting for them. The
/// call is a hint: it reads no page past the end of the file, and at most as many as fit in an
/// eighth of the cache. The first missing page for which memory is not available at once ends the
/// whole call: that page and all later ones are not read.
///
/// `ranges`: array of `count` ranges. `nr_pages`: null, or receives the number of submitted pages.
///
/// Errors: ::PW_ERROR_ARGUMENT, ::PW_ERROR_HANDLE, ::PW_ERROR_OUT_OF_MEMORY if there is no memory
/// for a list of the ranges, ::PW_ERROR_DEADLOCK in a page codec.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_prefetch(
    file: *mut pw_file,
    ranges: *const pw_range,
    count: usize,
    nr_pages: *mut usize,
) -> c_int {
    call_with::<OpenFile>(file as u64, || {
        // SAFETY: by the header, null, or valid for reads of `count` items; none is written to.
        let given = unsafe { items_to_read(ranges, count) }?;
        let mut ranges = with_room(given.len())?;
        for given in given {
            ranges.push(range(given.offset, given.length)?);
        }
        let nr = with(file as u64, |file: &OpenFile| {
            Ok(file.file().prefetch(&ranges)?)
        })?;
        if nr_pages.is_null() {
            return Ok(());
        }
        // SAFETY: by the header, valid for writes.
        unsafe { answer(nr_pages, nr) }
    })
}

/// Removes pages of a file that was changed outside the cache, so that the next read fetches them
/// from the file. Pins of removed pages keep their bytes. Pages that are dirty, unsynced
/// (::pw_file_info) or locked (::pw_edit_begin) stay.
///
/// `offset`, `length`: the bytes; whole pages are removed. A length of 0 extends to the end.
///
/// Errors: ::PW_ERROR_ARGUMENT, ::PW_ERROR_HANDLE, ::PW_ERROR_DEADLOCK in a page codec.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_invalidate(file: *mut pw_file, offset: i64, length: i64) -> c_int {
    call_with::<OpenFile>(file as u64, || {
        let range = range(offset, length)?;
        // `File::invalidate` would do the same, but would not report that it is refused.
        with(file as u64, |file: &OpenFile| {
            Ok(file.file().advise(range, Advice::NotSoon)?)
        })
    })
}
