//! Page view: bytes of a page that a view's closure reads in place while other threads may write
//! them. It returns only copies of bytes ([`RacySource`]), so a value that was read cannot change
//! afterwards.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Range, RangeInclusive};

use pagewell_sync::bytes::RacySource;

use super::attempt::{Attempt, STEP, Torn, WatchedWords, is_as_it_was};

/// Lengths of copies that are inlined: few, so that a closure with a copy is likely to be inlined
/// too. For shorter lengths, the methods for arrays and integers are better.
const IN_LINE: RangeInclusive<usize> = 16..=64;

/// Bytes of a page, or of a part of it, in the closure of a view of a file (`File::view`) or of a
/// memory space (`Space::view`).
///
/// The bytes may change during the closure. Its result is then dropped, and it is called again.
/// Positions are relative to the start of the view and need not be aligned.
///
/// # Errors
///
/// Accesses return [`Torn`] if the requested range, however far away, is not within the view, or if
/// a check (at every 64th access) finds the page changed. The closure returns it with `?`.
pub struct PageView<'v> {
    bytes: RacySource<'v>,
    attempt: &'v Attempt<'v>,
}

macro_rules! integers {
    ($($little:ident $big:ident: $type:ty,)*) => {$(
        #[doc = concat!("Reads the little-endian `", stringify!($type), "` at `at`.")]
        #[inline(always)]
        pub fn $little(&self, at: usize) -> Result<$type, Torn> {
            self.array(at).map(<$type>::from_le_bytes)
        }

        #[doc = concat!("Reads the big-endian `", stringify!($type), "` at `at`.")]
        #[inline(always)]
        pub fn $big(&self, at: usize) -> Result<$type, Torn> {
            self.array(at).map(<$type>::from_be_bytes)
        }
    )*};
}

#[allow(clippy::missing_errors_doc)] // Documented once, above.
impl<'v> PageView<'v> {
    #[inline(always)]
    pub(crate) fn new(bytes: RacySource<'v>, attempt: &'v Attempt<'v>) -> Self {
        Self { bytes, attempt }
    }

    /// Returns the number of bytes of the page up to the end of the file, or of the part.
    #[must_use]
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the view has no bytes. Only a part can be empty.
    #[must_use]
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the address of the bytes, for foreign interfaces such as the C API. It is valid
    /// until the closure returns; for a page of a file, as long as a handle of the file exists.
    /// Other threads may write to the memory at any time. Loaded bytes are the page's if after an
    /// acquire fence [`check`](Self::check) succeeds, or the token of a file's page is unchanged.
    #[must_use]
    #[inline(always)]
    pub fn as_ptr(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    /// Checks that the page is unchanged since the attempt began; then all values are consistent.
    ///
    /// The closure calls it before it uses a value outside the view, for example as an index into
    /// another array, or as the length of a loop without accesses.
    #[inline]
    pub fn check(&self) -> Result<(), Torn> {
        self.attempt.check(0)
    }

    /// Reads the byte at `at`.
    #[inline(always)]
    pub fn u8(&self, at: usize) -> Result<u8, Torn> {
        self.array(at).map(|[byte]| byte)
    }

    /// Reads the byte at `at` as a signed integer.
    #[inline(always)]
    pub fn i8(&self, at: usize) -> Result<i8, Torn> {
        self.array(at).map(i8::from_ne_bytes)
    }

    integers! {
        u16_le u16_be: u16,
        i16_le i16_be: i16,
        u32_le u32_be: u32,
        i32_le i32_be: i32,
        u64_le u64_be: u64,
        i64_le i64_be: i64,
        u128_le u128_be: u128,
        i128_le i128_be: i128,
    }

    /// Reads `N` bytes at `at`.
    #[inline(always)]
    pub fn array<const N: usize>(&self, at: usize) -> Result<[u8; N], Torn> {
        if N <= 64 {
            self.attempt.count()?;
        } else {
            self.attempt.count_bytes(N)?;
        }
        self.bytes.load(at).ok_or(Torn)
    }

    /// Fills `buf` with the bytes from `at` on. They are valid once the view has succeeded.
    #[inline(always)]
    pub fn copy_to(&self, at: usize, buf: &mut [u8]) -> Result<(), Torn> {
        self.attempt.count_bytes(buf.len())?;
        let bytes = self.bytes.get(at, buf.len()).ok_or(Torn)?;
        if IN_LINE.contains(&buf.len()) {
            bytes.copy_to(0, buf);
        } else {
            copy_any(bytes, buf);
        }
        Ok(())
    }

    /// Compares the `other.len()` bytes at `at` with `other`, byte by byte.
    #[inline(always)]
    pub fn compare(&self, at: usize, other: &[u8]) -> Result<Ordering, Torn> {
        self.attempt.count_bytes(other.len())?;
        compare_bytes(self.bytes.get(at, other.len()).ok_or(Torn)?, other).ok_or(Torn)
    }

    /// Compares all bytes of the view with `other`, for example a [`part`](Self::part) with a key.
    #[inline]
    pub fn compare_all(&self, other: &[u8]) -> Result<Ordering, Torn> {
        let both = self.len().min(other.len());
        let order = self.compare(0, &other[..both])?;
        Ok(order.then(self.len().cmp(&other.len())))
    }

    /// Whether the view begins with the bytes of `prefix`; `false` if the view is shorter.
    #[inline]
    pub fn starts_with(&self, prefix: &[u8]) -> Result<bool, Torn> {
        if prefix.len() > self.len() {
            return Ok(false);
        }
        Ok(self.compare(0, prefix)?.is_eq())
    }

    /// Whether the view has exactly the bytes of `other`.
    #[inline]
    pub fn equals(&self, other: &[u8]) -> Result<bool, Torn> {
        Ok(self.len() == other.len() && self.starts_with(other)?)
    }

    /// Returns the part in `range` as a view of its own. It belongs to the same attempt.
    #[inline(always)]
    pub fn part(&self, range: Range<usize>) -> Result<Self, Torn> {
        let len = range.end.checked_sub(range.start).ok_or(Torn)?;
        let bytes = self.bytes.get(range.start, len).ok_or(Torn)?;
        Ok(PageView::new(bytes, self.attempt))
    }

    /// Searches `count` slots of `width` bytes from `at` on by binary search, in under 64 steps.
    ///
    /// `compare` gets the view and the position of a slot in it, and returns how that slot compares
    /// with the target; the slots are in ascending order. As [`slice::binary_search_by`], the
    /// search returns the number of any equal slot, or `Err` with the number of lesser slots. A
    /// `compare` that never returns `Equal` finds the border between two groups. If the slots are
    /// not in order, as may happen in an inconsistent page, the result is any number up to `count`.
    #[inline]
    pub fn search<F>(
        &self,
        at: usize,
        width: usize,
        count: usize,
        mut compare: F,
    ) -> Result<Result<usize, usize>, Torn>
    where
        F: FnMut(&Self, usize) -> Result<Ordering, Torn>,
    {
        self.attempt.count()?;
        let len = width.checked_mul(count).ok_or(Torn)?;
        // No product or sum below exceeds these two.
        self.bytes.get(at, len).ok_or(Torn)?;
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            match compare(self, at + middle * width)? {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok(Ok(middle)),
            }
        }
        Ok(Err(low))
    }
}

impl fmt::Debug for PageView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageView({} bytes)", self.len())
    }
}

#[inline(never)]
fn copy_any(bytes: RacySource<'_>, buf: &mut [u8]) {
    bytes.copy_to(0, buf);
}

/// Compares all of `bytes` with `other`, of the same length, by words with the highest byte first.
/// The first word, which decides most comparisons, is inline. `None` would mean unequal lengths.
#[inline(always)]
fn compare_bytes(bytes: RacySource<'_>, other: &[u8]) -> Option<Ordering> {
    if let Some(first) = other.first_chunk() {
        let order = u64::from_be_bytes(bytes.load(0)?).cmp(&u64::from_be_bytes(*first));
        if order.is_ne() || other.len() == first.len() {
            return Some(order);
        }
    }
    compare_any(bytes, other)
}

#[inline(never)]
fn compare_any(bytes: RacySource<'_>, other: &[u8]) -> Option<Ordering> {
    let (words, rest) = other.as_chunks::<8>();
    for (nr, word) in words.iter().enumerate() {
        let order = u64::from_be_bytes(bytes.load(nr * 8)?).cmp(&u64::from_be_bytes(*word));
        if order.is_ne() {
            return Some(order);
        }
    }
    if rest.is_empty() {
        return Some(Ordering::Equal);
    }
    // The rest, by words that begin in the equal part. A concurrent change drops the result.
    if let Some(last) = other.last_chunk() {
        let order =
            u64::from_be_bytes(bytes.load(other.len() - 8)?).cmp(&u64::from_be_bytes(*last));
        return Some(order);
    }
    if let (Some(first), Some(last)) = (other.first_chunk(), other.last_chunk()) {
        let order = u32::from_be_bytes(bytes.load(0)?).cmp(&u32::from_be_bytes(*first));
        let last = u32::from_be_bytes(bytes.load(other.len() - 4)?).cmp(&u32::from_be_bytes(*last));
        return Some(order.then(last));
    }
    for (at, byte) in other.iter().enumerate() {
        let [ours] = bytes.load(at)?;
        let order = ours.cmp(byte);
        if order.is_ne() {
            return Some(order);
        }
    }
    Some(Ordering::Equal)
}

/// Outcome of an attempt.
#[derive(Debug)]
#[must_use]
pub enum ViewOutcome<R> {
    /// Result of the closure, from consistent bytes of the page.
    Done(R),
    /// Without a reference: the page was changing, or the closure made too many accesses.
    Again,
    /// Without a reference: the attempt had no result, and one with a reference must decide. With a
    /// reference: the page's contents are inconsistent.
    Fallback,
    /// With a reference: the closure did not return within this number of accesses, or within a
    /// number of checks that is the page's size in bytes.
    TooLong(u64),
}

/// Makes one attempt on `bytes`, a page of `page_size` bytes or a part of it.
///
/// The caller has loaded the values of `words` by acquire loads. A thread that overwrites the page
/// first changes a word, and then executes a release fence; no word returns to an earlier value
/// during the attempt. With a reference to the page, which prevents changes of the bytes, both
/// words are `None`.
///
/// After every 64 accesses the attempt checks the words, and it makes at most `page_size` checks.
/// After a check that fails, all accesses fail; so the attempt ends if `look` returns on [`Torn`].
#[inline(always)]
pub fn attempt_view<'v, R, F>(
    bytes: RacySource<'v>,
    words: WatchedWords<'v>,
    page_size: usize,
    look: &mut F,
) -> ViewOutcome<R>
where
    F: FnMut(PageView<'_>) -> Result<R, Torn>,
{
    let attempt = Attempt::new(words, page_size);
    let answer = look(PageView::new(bytes, &attempt));
    // The words by value, not those of `attempt`, which may be in memory: for a caller without a
    // second word, no code checks one.
    match (!attempt.has_failed() && is_as_it_was(words), answer) {
        (true, Ok(answer)) => ViewOutcome::Done(answer),
        (true, Err(Torn)) => ViewOutcome::Fallback,
        (false, _) if words[0].is_none() => {
            ViewOutcome::TooLong(u64::from(STEP) * page_size as u64)
        }
        (false, _) => ViewOutcome::Again,
    }
}
