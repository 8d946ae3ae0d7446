//! Arguments: what C passes, checked.
//!
//! - Owns: pointers to arguments and answers, buffers, offsets, texts.
//! - Calls: `error`.
//! - Promises: null, addresses that are not aligned, and sizes and offsets that no object has, are errors. That another pointer is good for what the
//!   header says of it is the caller's duty, as for any function of C.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::{Failure, Result};

/// A place for an answer.
///
/// # Safety
///
/// (a) `place` is null, or good for writes of a `T`.
#[inline(always)]
pub(crate) unsafe fn answer<T>(place: *mut T, value: T) -> Result<()> {
    if place.is_null() {
        return Err(Failure::argument("a place for an answer is null"));
    }
    // SAFETY: (a); it need not be aligned.
    unsafe { place.write_unaligned(value) };
    Ok(())
}

/// Checks a place for an answer before the work is done.
#[inline(always)]
pub(crate) fn needed<T>(place: *mut T) -> Result<()> {
    match place.is_null() {
        true => Err(Failure::argument("a place for an answer is null")),
        false => Ok(()),
    }
}

/// A structure of the caller's.
///
/// # Safety
///
/// (a) `place` is null, not aligned, or good for reads and writes of a `T` by this call alone, as long as the answer is used.
#[inline(always)]
pub(crate) unsafe fn structure<'a, T>(place: *mut T) -> Result<&'a mut T> {
    if place.is_null() || !place.is_aligned() {
        return Err(Failure::argument("a structure is null, or not aligned"));
    }
    // SAFETY: (a).
    Ok(unsafe { &mut *place })
}

/// A structure of the caller's, to be read.
///
/// # Safety
///
/// (a) `place` is null, not aligned, or good for reads of a `T` as long as the answer is used.
#[inline(always)]
pub(crate) unsafe fn structure_to_read<'a, T>(place: *const T) -> Result<&'a T> {
    if place.is_null() || !place.is_aligned() {
        return Err(Failure::argument("a structure is null, or not aligned"));
    }
    // SAFETY: (a).
    Ok(unsafe { &*place })
}

#[inline(always)]
fn check_size<T>(place: *const T, size: usize) -> Result<()> {
    // Null for no bytes is fine.
    if (place.is_null() && size != 0) || size > isize::MAX as usize {
        return Err(Failure::argument("a buffer is null, or larger than memory"));
    }
    Ok(())
}

/// A buffer to read into.
///
/// # Safety
///
/// (a) `buf` is null, or good for writes of `size` bytes, which nobody else uses as long as the answer is.
#[inline(always)]
pub(crate) unsafe fn buffer<'a>(buf: *mut c_void, size: usize) -> Result<&'a mut [u8]> {
    check_size(buf, size)?;
    if size == 0 {
        return Ok(&mut []);
    }
    // SAFETY: (a); it is not null, and no larger than an object may be. Its bytes may not be initialised: they are written, and not read.
    Ok(unsafe { std::slice::from_raw_parts_mut(buf.cast(), size) })
}

/// Bytes to write.
///
/// # Safety
///
/// (a) `buf` is null, or good for reads of `size` bytes, which nobody writes to as long as the answer is used.
#[inline(always)]
pub(crate) unsafe fn bytes<'a>(buf: *const c_void, size: usize) -> Result<&'a [u8]> {
    check_size(buf, size)?;
    if size == 0 {
        return Ok(&[]);
    }
    // SAFETY: (a); it is not null, and no larger than an object may be.
    Ok(unsafe { std::slice::from_raw_parts(buf.cast(), size) })
}

/// An array of the caller's.
///
/// # Safety
///
/// (a) `items` is null, not aligned, or good for reads and writes of `nr` of them by this call alone, as long as the answer is used.
pub(crate) unsafe fn items<'a, T>(items: *mut T, nr: usize) -> Result<&'a mut [T]> {
    if nr == 0 {
        return Ok(&mut []);
    }
    let is_too_large = nr > isize::MAX as usize / size_of::<T>().max(1);
    if items.is_null() || !items.is_aligned() || is_too_large {
        return Err(Failure::argument(
            "an array is null, not aligned, or larger than memory",
        ));
    }
    // SAFETY: (a).
    Ok(unsafe { std::slice::from_raw_parts_mut(items, nr) })
}

/// An array of the caller's, to be read.
///
/// # Safety
///
/// (a) `items` is null, not aligned, or good for reads of `nr` of them, as long as the answer is used.
pub(crate) unsafe fn items_to_read<'a, T>(items: *const T, nr: usize) -> Result<&'a [T]> {
    if nr == 0 {
        return Ok(&[]);
    }
    let is_too_large = nr > isize::MAX as usize / size_of::<T>().max(1);
    if items.is_null() || !items.is_aligned() || is_too_large {
        return Err(Failure::argument(
            "an array is null, not aligned, or larger than memory",
        ));
    }
    // SAFETY: (a).
    Ok(unsafe { std::slice::from_raw_parts(items, nr) })
}

/// An offset in a file.
#[inline(always)]
pub(crate) fn offset(offset: i64) -> Result<u64> {
    u64::try_from(offset).map_err(|_| Failure::argument("an offset, or a size, is negative"))
}

/// A range of a file's bytes. A length of 0 is up to the end.
pub(crate) fn range(start: i64, length: i64) -> Result<Range<u64>> {
    let (start, length) = (offset(start)?, offset(length)?);
    let end = match length {
        0 => u64::MAX,
        _ => start.saturating_add(length),
    };
    Ok(start..end)
}

/// A size or an offset of the library's, which are below 2^63.
pub(crate) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A text of the caller's.
///
/// # Safety
///
/// (a) `text` is null, or ends with a zero, and nobody writes to it as long as the answer is used.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Result<&'a CStr> {
    if text.is_null() {
        return Err(Failure::argument("a text is null"));
    }
    // SAFETY: (a).
    Ok(unsafe { CStr::from_ptr(text) })
}

/// A path of the caller's.
///
/// # Safety
///
/// As [`text`].
pub(crate) unsafe fn path<'a>(path: *const c_char) -> Result<&'a Path> {
    // SAFETY: the caller's duty is that of `text`.
    let path = unsafe { text(path) }?;
    Ok(Path::new(OsStr::from_bytes(path.to_bytes())))
}

/// Gives a structure of statistics to a caller whose header may be older or newer: as many bytes as both know, and zeros beyond.
///
/// # Safety
///
/// (a) `place` is null, or good for writes of `size` bytes. (b) `T` is plain integers, without padding.
pub(crate) unsafe fn answer_sized<T: Copy>(place: *mut T, size: usize, value: T) -> Result<()> {
    needed(place)?;
    if size == 0 || size > 4096 || !size.is_multiple_of(8) {
        return Err(Failure::argument(
            "the size of a structure is none that it has had",
        ));
    }
    let both = size.min(size_of::<T>());
    // SAFETY: (a), (b); `both` is within both.
    unsafe {
        std::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), place.cast::<u8>(), both)
    };
    // SAFETY: (a); the rest of it.
    unsafe { std::ptr::write_bytes(place.cast::<u8>().wrapping_add(both), 0, size - both) };
    Ok(())
}
