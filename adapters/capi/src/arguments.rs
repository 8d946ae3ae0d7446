//! Checks of arguments that C programs pass.
//!
//! - Owns: checks of pointers to arguments and results, buffers, offsets, strings.
//! - Calls: `error`.
//! - Promises: a call fails if a pointer to an object is null, an offset is negative, a size is
//!   above `isize::MAX` bytes, or a structure or array that it reads is misaligned. Pointers are
//!   not checked in any other way.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::pw_error::PW_ERROR_OUT_OF_MEMORY;
use crate::error::{Failure, Result};

/// Stores a result at the address that the C program passed. Fails if the address is null.
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

/// Fails if the pointer to a result is null. Called before an operation, so that the operation has
/// no effect if its result cannot be stored.
#[inline(always)]
pub(crate) fn needed<T>(place: *mut T) -> Result<()> {
    match place.is_null() {
        true => Err(Failure::argument("a pointer to a result is null")),
        false => Ok(()),
    }
}

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
    // A buffer of size 0 may be null.
    if (place.is_null() && size != 0) || size > isize::MAX as usize {
        return Err(Failure::argument("a buffer is null or its size is invalid"));
    }
    Ok(())
}

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
    // SAFETY: (a); checked above. The bytes may be uninitialized: they are only written.
    Ok(unsafe { std::slice::from_raw_parts_mut(buf.cast(), size) })
}

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
    // SAFETY: (a); checked above.
    Ok(unsafe { std::slice::from_raw_parts(buf.cast(), size) })
}

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

/// # Safety
///
/// (a) `items` is null, misaligned, or valid for reads of `nr` items as long as the result is used.
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

/// Returns an empty vector with memory for `nr` items, a number that the program chooses.
pub(crate) fn with_room<T>(nr: usize) -> Result<Vec<T>> {
    let mut items = Vec::new();
    items.try_reserve_exact(nr).map_err(|_| {
        let nr_bytes = nr.saturating_mul(size_of::<T>());
        Failure::Ours(
            PW_ERROR_OUT_OF_MEMORY,
            format!("cannot allocate {nr_bytes} bytes for the call").into(),
        )
    })?;
    Ok(items)
}

#[inline(always)]
pub(crate) fn offset(offset: i64) -> Result<u64> {
    u64::try_from(offset).map_err(|_| Failure::argument("an offset or a size is negative"))
}

/// Converts offset and length into a range of bytes. A length of 0 extends to the end of the file.
pub(crate) fn range(start: i64, length: i64) -> Result<Range<u64>> {
    let (start, length) = (offset(start)?, offset(length)?);
    let end = match length {
        0 => u64::MAX,
        _ => start.saturating_add(length),
    };
    Ok(start..end)
}

/// Converts one of the library's sizes or offsets, which are below 2^63.
pub(crate) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// # Safety
///
/// (a) `text` is null, or a string that ends with a zero byte. No thread writes to the string as
/// long as the result is used.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Result<&'a CStr> {
    if text.is_null() {
        return Err(Failure::argument("a string is null"));
    }
    // SAFETY: (a).
    Ok(unsafe { CStr::from_ptr(text) })
}

/// # Safety
///
/// As [`text`].
pub(crate) unsafe fn path<'a>(path: *const c_char) -> Result<&'a Path> {
    // SAFETY: as `text`.
    let path = unsafe { text(path) }?;
    Ok(Path::new(OsStr::from_bytes(path.to_bytes())))
}

/// Stores statistics for a caller whose header may be older or newer than the library: copies the
/// bytes that both versions of `T` have, and zeros the rest of the caller's structure.
///
/// # Safety
///
/// (a) `place` is null, or valid for writes of `size` bytes. (b) `T` is integers without padding.
pub(crate) unsafe fn answer_sized<T: Copy>(place: *mut T, size: usize, value: T) -> Result<()> {
    needed(place)?;
    if size == 0 || size > 4096 || !size.is_multiple_of(8) {
        return Err(Failure::argument(
            "the size of a structure must be a multiple of 8, from 8 to 4096",
        ));
    }
    let both = size.min(size_of::<T>());
    // SAFETY: (a), (b); `both` is at most the size of either structure.
    unsafe {
        std::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), place.cast::<u8>(), both)
    };
    // SAFETY: (a); the range is the rest of the caller's structure.
    unsafe { std::ptr::write_bytes(place.cast::<u8>().wrapping_add(both), 0, size - both) };
    Ok(())
}
