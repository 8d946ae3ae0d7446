//! Checks of arguments that C programs pass.
//!
//! - Owns: checks of pointers to arguments and results, buffers, offsets, strings.
//! - Calls: `error`.
//! - Promises: null pointers, misaligned addresses, and sizes and offsets that no object has, are
//!   errors. The caller ensures that any other pointer meets the requirements of the header, as for
//!   any function of C.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::{Failure, Result};

/// Stores a result.
///
/// # Safety
///
/// (a) `place` is null, or valid for writes of a `T`.
#[inline(always)]
pub(crate) unsafe fn answer<T>(place: *mut T, value: T) -> Result<()> {
    if place.is_null() {
        return Err(Failure::argument("a pointer to a result is null"));
    }
    // SAFETY: (a); the pointer need not be aligned.
    unsafe { place.write_unaligned(value) };
    Ok(())
}

/// Checks a pointer to a result before the work is done.
#[inline(always)]
pub(crate) fn needed<T>(place: *mut T) -> Result<()> {
    match place.is_null() {
        true => Err(Failure::argument("a pointer to a result is null")),
        false => Ok(()),
    }
}

/// Returns a structure of the caller.
///
/// # Safety
///
/// (a) `place` is null, misaligned, or valid for reads and writes of a `T` by this call alone, as
/// long as the result is used.
#[inline(always)]
pub(crate) unsafe fn structure<'a, T>(place: *mut T) -> Result<&'a mut T> {
    if place.is_null() || !place.is_aligned() {
        return Err(Failure::argument("a structure is null or misaligned"));
    }
    // SAFETY: (a).
    Ok(unsafe { &mut *place })
}

/// Returns a structure of the caller for reading.
///
/// # Safety
///
/// (a) `place` is null, misaligned, or valid for reads of a `T` as long as the result is used.
#[inline(always)]
pub(crate) unsafe fn structure_to_read<'a, T>(place: *const T) -> Result<&'a T> {
    if place.is_null() || !place.is_aligned() {
        return Err(Failure::argument("a structure is null or misaligned"));
    }
    // SAFETY: (a).
    Ok(unsafe { &*place })
}

#[inline(always)]
fn check_size<T>(place: *const T, size: usize) -> Result<()> {
    // A null pointer to no bytes is valid.
    if (place.is_null() && size != 0) || size > isize::MAX as usize {
        return Err(Failure::argument("a buffer is null or its size is invalid"));
    }
    Ok(())
}

/// Returns a buffer to read into.
///
/// # Safety
///
/// (a) `buf` is null, or valid for writes of `size` bytes, which no other thread uses as long as
/// the result is used.
#[inline(always)]
pub(crate) unsafe fn buffer<'a>(buf: *mut c_void, size: usize) -> Result<&'a mut [u8]> {
    check_size(buf, size)?;
    if size == 0 {
        return Ok(&mut []);
    }
    // SAFETY: (a); the pointer is not null, and the size is at most that of an object. The bytes
    // may be uninitialized: they are written, and not read.
    Ok(unsafe { std::slice::from_raw_parts_mut(buf.cast(), size) })
}

/// Returns bytes to write.
///
/// # Safety
///
/// (a) `buf` is null, or valid for reads of `size` bytes, to which no thread writes as long as the
/// result is used.
#[inline(always)]
pub(crate) unsafe fn bytes<'a>(buf: *const c_void, size: usize) -> Result<&'a [u8]> {
    check_size(buf, size)?;
    if size == 0 {
        return Ok(&[]);
    }
    // SAFETY: (a); the pointer is not null, and the size is at most that of an object.
    Ok(unsafe { std::slice::from_raw_parts(buf.cast(), size) })
}

/// Returns an array of the caller.
///
/// # Safety
///
/// (a) `items` is null, misaligned, or valid for reads and writes of `nr` items by this call alone,
/// as long as the result is used.
pub(crate) unsafe fn items<'a, T>(items: *mut T, nr: usize) -> Result<&'a mut [T]> {
    if nr == 0 {
        return Ok(&mut []);
    }
    let is_too_large = nr > isize::MAX as usize / size_of::<T>().max(1);
    if items.is_null() || !items.is_aligned() || is_too_large {
        return Err(Failure::argument(
            "an array is null, misaligned, or larger than the address space",
        ));
    }
    // SAFETY: (a).
    Ok(unsafe { std::slice::from_raw_parts_mut(items, nr) })
}

/// Returns an array of the caller for reading.
///
/// # Safety
///
/// (a) `items` is null, misaligned, or valid for reads of `nr` items, as long as the result is
/// used.
pub(crate) unsafe fn items_to_read<'a, T>(items: *const T, nr: usize) -> Result<&'a [T]> {
    if nr == 0 {
        return Ok(&[]);
    }
    let is_too_large = nr > isize::MAX as usize / size_of::<T>().max(1);
    if items.is_null() || !items.is_aligned() || is_too_large {
        return Err(Failure::argument(
            "an array is null, misaligned, or larger than the address space",
        ));
    }
    // SAFETY: (a).
    Ok(unsafe { std::slice::from_raw_parts(items, nr) })
}

#[inline(always)]
pub(crate) fn offset(offset: i64) -> Result<u64> {
    u64::try_from(offset).map_err(|_| Failure::argument("an offset or a size is negative"))
}

/// Returns a range of a file's bytes. A length of 0 extends to the end.
pub(crate) fn range(start: i64, length: i64) -> Result<Range<u64>> {
    let (start, length) = (offset(start)?, offset(length)?);
    let end = match length {
        0 => u64::MAX,
        _ => start.saturating_add(length),
    };
    Ok(start..end)
}

/// Converts a size or an offset of the library, which is below 2^63.
pub(crate) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Returns a string of the caller.
///
/// # Safety
///
/// (a) `text` is null, or ends with a zero, and no thread writes to it as long as the result is
/// used.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Result<&'a CStr> {
    if text.is_null() {
        return Err(Failure::argument("a string is null"));
    }
    // SAFETY: (a).
    Ok(unsafe { CStr::from_ptr(text) })
}

/// Returns a path of the caller.
///
/// # Safety
///
/// As [`text`].
pub(crate) unsafe fn path<'a>(path: *const c_char) -> Result<&'a Path> {
    // SAFETY: the caller's obligations are those of `text`.
    let path = unsafe { text(path) }?;
    Ok(Path::new(OsStr::from_bytes(path.to_bytes())))
}

/// Stores a structure of statistics for a caller whose header may be older or newer: the bytes that
/// both have, and zeros beyond.
///
/// # Safety
///
/// (a) `place` is null, or valid for writes of `size` bytes. (b) `T` consists of plain integers,
/// without padding.
pub(crate) unsafe fn answer_sized<T: Copy>(place: *mut T, size: usize, value: T) -> Result<()> {
    needed(place)?;
    if size == 0 || size > 4096 || !size.is_multiple_of(8) {
        return Err(Failure::argument(
            "the size of a structure is not one of any version",
        ));
    }
    let both = size.min(size_of::<T>());
    // SAFETY: (a), (b); `both` is within both.
    unsafe {
        std::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), place.cast::<u8>(), both)
    };
    // SAFETY: (a); the rest of the structure.
    unsafe { std::ptr::write_bytes(place.cast::<u8>().wrapping_add(both), 0, size - both) };
    Ok(())
}
