//! Reads, pins and views, and what is said about them beforehand.
//!
//! - Owns: `pw_view`, `pw_read_request`, `pw_range`, `pw_advice`.
//! - Calls: `error`, `entry`, `handles`, `arguments`, `file`, `pins`.
//! - Promises: what hits writes to no memory that threads share.

use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::sync::atomic::{Ordering, fence};

use library::{Advice, PageGuard, ReadRequest, Token, TokenState, Torn, View};

use crate::arguments::{
    answer, buffer, items, items_to_read, needed, offset as checked_offset, range, structure,
    structure_to_read,
};
use crate::entry::{call, call_with, is_test};
use crate::error::pw_error::*;
use crate::error::{Failure, Result};
use crate::file::{OpenFile, pw_file};
use crate::handles::{with, with_shortly};
use crate::pins::{self, Pinned, pw_page};

/// Reads bytes of a file. Reads of cached pages write nothing that threads share, and take no lock.
///
/// A read within one page is atomic: it gives the bytes as they were at one moment. A read of several pages is so for each of them.
///
/// `buf`: gets the bytes; may be null if `size` is 0. `offset`: where to begin.
///
/// `nr_read`: gets how many bytes were read: `size`, or fewer where the file ends, 0 at or past the end. If some pages could be read before one failed, they are
/// counted, and the next read reports the failure. Bytes of `buf` beyond are any, also after an error.
///
/// Errors: ::PW_ERROR_IO, ::PW_ERROR_CORRUPT when the hook on bytes refuses a page, ::PW_ERROR_TRUNCATED when the file has become shorter behind the cache's back, ::PW_ERROR_OUT_OF_FRAMES when every page is pinned,
/// ::PW_ERROR_FORKED, ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT.
///
/// Threads: any, several with one file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_read(
    file: *mut pw_file,
    buf: *mut c_void,
    size: usize,
    offset: i64,
    nr_read: *mut usize,
) -> c_int {
    // A hit: no more than an announcement, and nothing that could panic.
    // (A negative offset is beyond any file, as an unsigned one.)
    if size != 0 && size <= SHORT && !buf.is_null() && !nr_read.is_null() {
        // SAFETY: the caller's duty: good for writes of `size` bytes, and this call's alone.
        let short = unsafe { std::slice::from_raw_parts_mut(buf.cast::<u8>(), size) };
        let is_hit = with_shortly(file as u64, |file: &OpenFile, _| {
            file.file().try_read_at(short, offset as u64)
        });
        if is_hit == Some(true) && !is_test() {
            // SAFETY: the caller's duty: good for writes.
            unsafe { nr_read.write_unaligned(size) };
            return PW_OK as c_int;
        }
    }
    // SAFETY: the same duties.
    unsafe { read_any(file, buf, size, offset, nr_read) }
}

/// Reads up to this are tried as a hit first.
const SHORT: usize = 64;

/// [`pw_read`] of any length, a hit or not.
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
        // SAFETY: the caller's duty: null, or good for writes of `size` bytes, and this call's alone.
        let buf = unsafe { buffer(buf, size) }?;
        let offset = checked_offset(offset)?;
        let nr = with(file as u64, |file: &OpenFile| {
            Ok(file.file().read_at(buf, offset)?)
        })?;
        // SAFETY: the caller's duty: good for writes.
        unsafe { answer(nr_read, nr) }
    })
}

/// One of many reads: ::pw_read_many.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)]
pub struct pw_read_request {
    /// What to read into. Buffers of one call may not overlap.
    pub buf: *mut c_void,
    /// How many bytes.
    pub size: usize,
    /// Where to begin.
    pub offset: i64,
    /// Gets how many bytes were read, as of ::pw_read.
    pub nr_read: usize,
    /// Gets ::PW_OK, or why nothing was read.
    pub error: c_int,
}

/// Whether some of the buffers share a byte.
fn overlap(requests: &[pw_read_request]) -> bool {
    let ends =
        |request: &pw_read_request| (request.buf as usize, request.buf as usize + request.size);
    // Most programs pass them in order.
    let in_order = requests
        .windows(2)
        .all(|two| ends(&two[0]).1 <= ends(&two[1]).0);
    if in_order {
        return false;
    }
    let mut ranges: Vec<_> = requests
        .iter()
        .filter(|request| request.size != 0)
        .map(ends)
        .collect();
    ranges.sort_unstable();
    ranges.windows(2).any(|two| two[0].1 > two[1].0)
}

/// Does many reads, each as ::pw_read. Those of cached pages wait for memory together, sixteen at a time; missing pages are read from the file at once, as many as
/// the engine takes. They are done in any order.
///
/// `requests`: `count` of them; `nr_read` and `error` of each are filled in.
///
/// Errors: the first error of a request, whose text ::pw_last_error has; the others were done all the same. ::PW_ERROR_ARGUMENT when a buffer is null, two overlap, or
/// an offset is negative, and ::PW_ERROR_HANDLE: then nothing was done.
///
/// Threads: any, several with one file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_read_many(
    file: *mut pw_file,
    requests: *mut pw_read_request,
    count: usize,
) -> c_int {
    call_with::<OpenFile>(file as u64, || {
        // SAFETY: the caller's duty: null, or good for reads and writes of `count` of them, and this call's alone.
        let requests = unsafe { items(requests, count) }?;
        for request in &*requests {
            // SAFETY: not used yet; only checked.
            unsafe { buffer(request.buf, request.size) }?;
            checked_offset(request.offset)?;
        }
        if overlap(requests) {
            return Err(Failure::argument("two buffers overlap"));
        }
        let mut reads = Vec::with_capacity(requests.len());
        for request in &*requests {
            // SAFETY: the caller's duty: good for writes of `size` bytes; and no two of them overlap.
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

/// Pins a page: its bytes are read where they are. They do not change while it is pinned, and stay in memory, whatever is written to the file.
///
/// `page_number`: the page; its first byte is the number times the page size.
///
/// `page`: is filled in; to be given back with ::pw_unpin.
///
/// Errors: ::PW_ERROR_OUT_OF_RANGE, ::PW_ERROR_TOO_MANY_PINS, ::PW_ERROR_LIMIT after 1048576 pins, and those of ::pw_read.
///
/// Threads: any, several with one file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_pin(file: *mut pw_file, page_number: u64, page: *mut pw_page) -> c_int {
    // A hit: no more than an announcement, and nothing that could panic.
    if !page.is_null() && !is_test() {
        let handle = file as u64;
        let kept = with_shortly(handle, |file: &OpenFile, line| {
            let pin = || {
                let guard = file.file().try_pin(page_number)?;
                // SAFETY: as in `pin_any`.
                Some(unsafe { transmute::<PageGuard<'_>, PageGuard<'static>>(guard) })
            };
            // SAFETY: (a) as in `pin_any`; (b).
            unsafe { pins::keep_shortly(line, handle, page_number, pin) }
        });
        if let Some(Some(kept)) = kept {
            // SAFETY: the caller's duty: good for writes.
            unsafe { page.write_unaligned(kept) };
            return PW_OK as c_int;
        }
    }
    // SAFETY: the same duties.
    unsafe { pin_any(file, page_number, page) }
}

/// [`pw_pin`] of any page.
#[inline(never)]
unsafe fn pin_any(file: *mut pw_file, page_number: u64, page: *mut pw_page) -> c_int {
    call_with::<OpenFile>(file as u64, || {
        needed(page)?;
        let handle = file as u64;
        let kept = with(handle, |file: &OpenFile| {
            let guard = file.file().pin(page_number)?;
            // SAFETY: only the lifetime changes. The guard borrows from the file, which is not closed as long as the slot has the guard: a closer finds it.
            let guard = unsafe { transmute::<PageGuard<'_>, PageGuard<'static>>(guard) };
            // SAFETY: (a) it is of this file, with which this call is under way.
            unsafe { pins::keep(handle, page_number, Pinned::OfFile(guard)) }
        })?;
        // SAFETY: the caller's duty: good for writes.
        unsafe { answer(page, kept) }
    })
}

/// Gives a pinned page back. Its bytes must not be used any more.
///
/// `page`: what ::pw_pin has filled in, or a copy of it; is emptied.
///
/// Errors: ::PW_ERROR_HANDLE if it was given back already, by this copy or another; ::PW_ERROR_FORKED in a child; ::PW_ERROR_ARGUMENT.
///
/// Threads: any, also another than the one that has pinned it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_unpin(page: *mut pw_page) -> c_int {
    call(|| {
        // SAFETY: the caller's duty: null, or good for reads and writes, and this call's alone.
        pins::end(unsafe { structure(page) }?)
    })
}

/// A look at a page where it is, without a pin: ::pw_view_begin. Of the program's own memory, which it may copy and keep.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)]
pub struct pw_view {
    /// The page's bytes, which **other threads may change at any time**: see ::pw_view_begin.
    pub data: *const c_void,
    /// How many there are: the size of a page, or less in the last one of the file.
    pub size: usize,
    /// The number of the page.
    pub page: u64,
    /// The handle of the file.
    pub file: *mut pw_file,
    /// Not for the program: what the page was when the view began.
    pub opaque: [u64; 6],
}

const _: () = assert!(
    size_of::<Token>() <= size_of::<[u64; 6]>() && align_of::<Token>() <= align_of::<u64>()
);

impl pw_view {
    fn new(file: *mut pw_file, (data, size, token): (*const u8, usize, Token)) -> Self {
        let mut opaque = [0; 6];
        // SAFETY: it has the room for a token, and the alignment: see above.
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
        // SAFETY: a token is integers, so any bits are one; of a page that does not exist, or of another file, if the program has made them up.
        unsafe { (&raw const self.opaque).cast::<Token>().read() }
    }

    /// Whether the page is as it was when the view began.
    #[inline(always)]
    fn state(&self) -> Result<TokenState> {
        // ORDERING: Acquire; whatever the program has loaded of the page stays before the loads of its slot: the end of the protocol of an optimistic
        // read, as at the end of every look of the library.
        fence(Ordering::Acquire);
        with(self.file as u64, |file: &OpenFile| {
            Ok(file.file().token_state(&self.token()))
        })
    }
}

#[inline(always)]
fn unchanged(state: TokenState) -> Result<()> {
    match state {
        TokenState::Unchanged => Ok(()),
        TokenState::Busy => Err(Failure::Outcome(PW_ERROR_CHANGING)),
        TokenState::Changed => Err(Failure::Outcome(PW_ERROR_CHANGED)),
    }
}

/// Begins to look at a page where it is, without a pin: nothing is copied, and nothing written that threads share. ::pw_view_validate says afterwards whether what was
/// read was the page's.
///
/// Between the two, other threads may write to the bytes at any time, or put another page in their place. So:
///
/// - Load them as what they are: memory that others write to. For integers, `__atomic_load_n(p, __ATOMIC_RELAXED)` of GCC and Clang, or a `volatile` access; for
///   more, ::pw_view_copy. A plain `memcpy` or `strcmp` is a data race for the language.
/// - Do not believe what was loaded before it was validated: check an offset or a length against `size` before it is used, and bound every loop.
/// - Let nothing that was loaded out of the look (an answer, a write, a free) before ::pw_view_validate has returned ::PW_OK.
///
/// The memory can be read, whatever becomes of the page, as long as the handle is open; not afterwards. Nothing has to be given back.
///
/// `page_number`: as of ::pw_pin. `view`: is filled in.
///
/// Errors: as ::pw_pin, but for those of pins.
///
/// Threads: any, several with one file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_view_begin(
    file: *mut pw_file,
    page_number: u64,
    view: *mut pw_view,
) -> c_int {
    // A hit: no more than an announcement, and nothing that could panic.
    if !view.is_null() && !is_test() {
        let seen = with_shortly(file as u64, |file: &OpenFile, _| {
            file.file().try_view(page_number, place_and_token)
        });
        if let Some(Some(seen)) = seen {
            // SAFETY: the caller's duty: good for writes.
            unsafe { view.write_unaligned(pw_view::new(file, seen)) };
            return PW_OK as c_int;
        }
    }
    // SAFETY: the same duties.
    unsafe { view_any(file, page_number, view) }
}

/// Where the bytes of a page are, how many, and what it is.
#[inline(always)]
fn place_and_token(view: &View<'_>) -> std::result::Result<(*const u8, usize, Token), Torn> {
    Ok((view.as_ptr(), view.len(), view.token()))
}

/// [`pw_view_begin`] of any page.
#[inline(never)]
unsafe fn view_any(file: *mut pw_file, page_number: u64, view: *mut pw_view) -> c_int {
    call_with::<OpenFile>(file as u64, || {
        needed(view)?;
        let seen = with(file as u64, |file: &OpenFile| {
            Ok(file.file().view(page_number, place_and_token)?)
        })?;
        // SAFETY: the caller's duty: good for writes.
        unsafe { answer(view, pw_view::new(file, seen)) }
    })
}

/// Whether the page has been what it was all the time since ::pw_view_begin: then everything that was loaded of the view is the page's, of one moment.
///
/// It may be asked as often as one likes, and of a view that was kept for long: so a program goes from page to page, a tree's, and asks afterwards whether the way
/// was right. A page that has changed is never taken for unchanged; now and then an unchanged one is taken for changed. Written to, evicted, cut off and moved
/// are changes; read, pinned and written back are none.
///
/// `view`: is not changed.
///
/// Returns: ::PW_OK if it is unchanged.
///
/// Errors: ::PW_ERROR_CHANGED; ::PW_ERROR_CHANGING, when somebody has just claimed the page, and may be about to change it: that lasts a moment; ::PW_ERROR_HANDLE
/// if the file was closed since; ::PW_ERROR_ARGUMENT.
///
/// Threads: any, several with one view.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_view_validate(view: *const pw_view) -> c_int {
    // Mostly it is unchanged: no more than an announcement, and nothing that could panic.
    if !view.is_null() && view.is_aligned() && !is_test() {
        // SAFETY: the caller's duty: good for reads.
        let view = unsafe { &*view };
        // ORDERING: Acquire, as in `state`.
        fence(Ordering::Acquire);
        let state = with_shortly(view.file as u64, |file: &OpenFile, _| {
            file.file().token_state(&view.token())
        });
        if state == Some(TokenState::Unchanged) {
            return PW_OK as c_int;
        }
    }
    // SAFETY: the same duties.
    unsafe { validate_any(view) }
}

/// [`pw_view_validate`] of a page that may have changed.
#[inline(never)]
unsafe fn validate_any(view: *const pw_view) -> c_int {
    call(|| {
        // SAFETY: the caller's duty: null, or good for reads.
        let view = unsafe { structure_to_read(view) }?;
        unchanged(view.state()?)
    })
}

/// Copies bytes of a view, and validates it: if this returns ::PW_OK, they are the page's, of the moment at which the view began and of this one.
///
/// `offset`: in the page. `buf`: gets `size` bytes. After an error it has any bytes.
///
/// Errors: ::PW_ERROR_ARGUMENT when they are not all in the view; those of ::pw_view_validate; and those of ::pw_read, if the page has to be looked up again, which it
/// is: the bytes are never taken from memory that is no page's.
///
/// Threads: any, several with one view.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_view_copy(
    view: *const pw_view,
    offset: usize,
    buf: *mut c_void,
    size: usize,
) -> c_int {
    call(|| {
        // SAFETY: the caller's duty: null, or good for reads.
        let view = unsafe { structure_to_read(view) }?;
        // SAFETY: the caller's duty: null, or good for writes of `size` bytes, and this call's alone.
        let buf = unsafe { buffer(buf, size) }?;
        let token = view.token();
        let is_within = offset.checked_add(size).is_some_and(|end| end <= view.size);
        if !is_within {
            return Err(Failure::argument("the bytes are not all in the view"));
        }
        // Before the page is looked up: one that has gone need not be read in for this.
        unchanged(view.state()?)?;
        with(view.file as u64, |file: &OpenFile| {
            let copy = |v: &View<'_>| v.copy_to(offset, buf);
            Ok(file.file().view(token.page(), copy)?)
        })?;
        unchanged(view.state()?)
    })
}

/// Bytes of a file: ::pw_prefetch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)]
pub struct pw_range {
    /// The first.
    pub offset: i64,
    /// How many; 0 for all up to the end.
    pub length: i64,
}

/// How bytes are going to be read: ::pw_advise.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types)]
pub enum pw_advice {
    /// In no particular way: streams are found out. The default.
    PW_ADVICE_NORMAL = 0,
    /// In order: twice as much is read ahead, from the first miss on.
    PW_ADVICE_SEQUENTIAL = 1,
    /// At random: nothing is read ahead.
    PW_ADVICE_RANDOM = 2,
    /// Once: what this handle reads for the first time stays as likely to be evicted as if it had not been read.
    PW_ADVICE_ONCE = 3,
    /// Soon: their reading begins now.
    PW_ADVICE_SOON = 4,
    /// Not soon: their pages are dropped, unless they have writes that the file does not have yet.
    PW_ADVICE_NOT_SOON = 5,
}

/// Says how bytes are going to be read, as `posix_fadvise`. The first four of ::pw_advice are said of the handle, whatever the range, and hold until something
/// else is said; the others are done at once.
///
/// `offset`, `length`: the bytes; a length of 0 is up to the end. `advice`: one of ::pw_advice.
///
/// Errors: ::PW_ERROR_ARGUMENT, ::PW_ERROR_FORKED, ::PW_ERROR_HANDLE.
///
/// Threads: any, several with one file.
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

/// Begins to read the pages of some ranges that are not in the cache, all at once, and does not wait for them. It is a hint: what would take waiting is not read, nor what is
/// more than an eighth of the cache in one call, or past the end.
///
/// `ranges`: `count` of them. `nr_pages`: null, or gets how many pages it has begun to read.
///
/// Errors: ::PW_ERROR_ARGUMENT, ::PW_ERROR_FORKED, ::PW_ERROR_HANDLE.
///
/// Threads: any, several with one file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_prefetch(
    file: *mut pw_file,
    ranges: *const pw_range,
    count: usize,
    nr_pages: *mut usize,
) -> c_int {
    call_with::<OpenFile>(file as u64, || {
        // SAFETY: the caller's duty: null, or good for reads of `count` of them; nothing is written to them.
        let given = unsafe { items_to_read(ranges, count) }?;
        let ranges = given.iter().map(|given| range(given.offset, given.length));
        let ranges = ranges.collect::<Result<Vec<_>>>()?;
        let nr = with(file as u64, |file: &OpenFile| {
            Ok(file.file().prefetch(&ranges)?)
        })?;
        if nr_pages.is_null() {
            return Ok(());
        }
        // SAFETY: the caller's duty: good for writes.
        unsafe { answer(nr_pages, nr) }
    })
}

/// Drops cached pages, so that the next read fetches them from the file: for a file that others change. Pinned pages keep their bytes. Pages with writes that the file
/// does not have yet stay.
///
/// `offset`, `length`: the bytes, of which whole pages are dropped; a length of 0 is up to the end.
///
/// Errors: ::PW_ERROR_ARGUMENT, ::PW_ERROR_HANDLE.
///
/// Threads: any, several with one file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_invalidate(file: *mut pw_file, offset: i64, length: i64) -> c_int {
    call_with::<OpenFile>(file as u64, || {
        let range = range(offset, length)?;
        with(file as u64, |file: &OpenFile| {
            file.file().invalidate(range);
            Ok(())
        })
    })
}
