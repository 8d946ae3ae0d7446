//! The bytes of a page, wherever they are: in a view, while others may be writing them, or in a slice.
//!
//! What reads nodes is written once, for both. All access is checked, and fails with `Torn`: a page may have changed during the look, or
//! be no node at all.

use std::cmp::Ordering;

use pagewell::{Torn, View};

/// Bytes to be read by value. All methods fail with `Torn` if what is asked for is not all there.
pub(crate) trait Bytes {
    fn u16(&self, at: usize) -> Result<u16, Torn>;
    fn u32(&self, at: usize) -> Result<u32, Torn>;
    fn u64(&self, at: usize) -> Result<u64, Torn>;
    /// How the bytes at `at`, as many as `other` has, compare with `other`.
    fn compare(&self, at: usize, other: &[u8]) -> Result<Ordering, Torn>;
    fn copy_to(&self, at: usize, buf: &mut [u8]) -> Result<(), Torn>;
}

impl Bytes for View<'_> {
    #[inline(always)]
    fn u16(&self, at: usize) -> Result<u16, Torn> {
        self.u16_le(at)
    }

    #[inline(always)]
    fn u32(&self, at: usize) -> Result<u32, Torn> {
        self.u32_le(at)
    }

    #[inline(always)]
    fn u64(&self, at: usize) -> Result<u64, Torn> {
        self.u64_le(at)
    }

    #[inline(always)]
    fn compare(&self, at: usize, other: &[u8]) -> Result<Ordering, Torn> {
        View::compare(self, at, other)
    }

    #[inline(always)]
    fn copy_to(&self, at: usize, buf: &mut [u8]) -> Result<(), Torn> {
        View::copy_to(self, at, buf)
    }
}

/// The `N` bytes at `at`.
#[inline(always)]
fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Torn> {
    let rest = bytes.get(at..).ok_or(Torn)?;
    rest.first_chunk().copied().ok_or(Torn)
}

/// The `len` bytes at `at`.
#[inline(always)]
pub(super) fn part(bytes: &[u8], at: usize, len: usize) -> Result<&[u8], Torn> {
    bytes.get(at..).and_then(|rest| rest.get(..len)).ok_or(Torn)
}

impl Bytes for [u8] {
    #[inline(always)]
    fn u16(&self, at: usize) -> Result<u16, Torn> {
        array(self, at).map(u16::from_le_bytes)
    }

    #[inline(always)]
    fn u32(&self, at: usize) -> Result<u32, Torn> {
        array(self, at).map(u32::from_le_bytes)
    }

    #[inline(always)]
    fn u64(&self, at: usize) -> Result<u64, Torn> {
        array(self, at).map(u64::from_le_bytes)
    }

    #[inline(always)]
    fn compare(&self, at: usize, other: &[u8]) -> Result<Ordering, Torn> {
        Ok(part(self, at, other.len())?.cmp(other))
    }

    #[inline(always)]
    fn copy_to(&self, at: usize, buf: &mut [u8]) -> Result<(), Torn> {
        buf.copy_from_slice(part(self, at, buf.len())?);
        Ok(())
    }
}
