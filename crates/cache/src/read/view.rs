//! What the closure of a view gets: the bytes of a page, where they are, while others may be writing them.
//!
//! Every access is checked against the length, counted ([`crate::read::look`]), and gives [`Torn`] when it fails. There
//! is no way to the bytes but copies of them (as [`RacySource`] makes them), so nothing that is read can change afterwards.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Range, RangeInclusive};

use pagewell_sync::bytes::RacySource;

use crate::index::token::Token;
use crate::read::look::{Look, OfFile, Torn, Watch};

/// The lengths of copies that are made in line. The fewer there are, the shorter is a closure that copies, and the likelier it is
/// compiled in line itself. Less than this are the arrays and integers, for which there are better ways.
const IN_LINE: RangeInclusive<usize> = 16..=64;

/// The bytes of a page, or of a part of it, as the closure of [`File::view`](crate::File::view) sees them; or that of a view of a
/// memory space, which says so by another `W`. What is to look at both has `W` as a parameter too.
///
/// They may change while one looks, and then two accesses do not agree with each other; what the closure returns is thrown away
/// then, and it is called again. Positions are counted from where the view begins, and need not be aligned.
///
/// # Errors
///
/// Of all methods: [`Torn`] when what is asked for is not all in the view, however far out it is; and when the page has been
/// found to have changed, which every 64th access looks for. The closure passes it on by `?`.
pub struct View<'v, W: Watch = OfFile<'v>> {
    bytes: RacySource<'v>,
    look: &'v Look<W>,
}

/// Integers of one width: little endian, big endian.
macro_rules! integers {
    ($($little:ident $big:ident: $type:ty,)*) => {$(
        #[doc = concat!("The `", stringify!($type), "` at `at`, its lowest byte first.")]
        #[inline(always)]
        pub fn $little(&self, at: usize) -> Result<$type, Torn> {
            self.array(at).map(<$type>::from_le_bytes)
        }

        #[doc = concat!("The `", stringify!($type), "` at `at`, its highest byte first.")]
        #[inline(always)]
        pub fn $big(&self, at: usize) -> Result<$type, Torn> {
            self.array(at).map(<$type>::from_be_bytes)
        }
    )*};
}

#[allow(clippy::missing_errors_doc)] // Said once, above.
impl<'v, W: Watch> View<'v, W> {
    #[inline(always)]
    pub(crate) fn new(bytes: RacySource<'v>, look: &'v Look<W>) -> Self {
        Self { bytes, look }
    }

    /// How many bytes there are: the page's, cut at the end of the file; or those of the part.
    #[must_use]
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are no bytes: so a part may be, and no page is.
    #[must_use]
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Where the bytes are: for an interface to programs that load them in ways of their own, such as one for C. The memory stays mapped as long
    /// as a handle of the file does, whatever becomes of the page; other threads may write to it at any time. What was loaded is the page's if
    /// the page is [unchanged](crate::File::is_unchanged) since its [`token`](Self::token), asked after an acquire fence.
    #[cfg(not(loom))]
    #[must_use]
    #[inline(always)]
    pub fn as_ptr(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    /// Finds out whether the page has changed since the look began. What was read before is what the page had, if not.
    ///
    /// The closure need not call it for the view's sake. It does before it relies on what it has read, in ways of its own: as an
    /// index into an array of its own, or for how often it does something that looks at nothing.
    #[inline]
    pub fn check(&self) -> Result<(), Torn> {
        self.look.check(0)
    }

    /// The byte at `at`.
    #[inline(always)]
    pub fn u8(&self, at: usize) -> Result<u8, Torn> {
        self.array(at).map(|[byte]| byte)
    }

    /// The byte at `at`, signed.
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

    /// The `N` bytes at `at`.
    #[inline(always)]
    pub fn array<const N: usize>(&self, at: usize) -> Result<[u8; N], Torn> {
        if N <= 64 {
            self.look.count()?;
        } else {
            self.look.count_bytes(N)?;
        }
        self.bytes.load(at).ok_or(Torn)
    }

    /// Copies the bytes from `at` on to `buf`, all of which is written.
    ///
    /// What is in `buf` is the page's once the view has returned.
    #[inline(always)]
    pub fn copy_to(&self, at: usize, buf: &mut [u8]) -> Result<(), Torn> {
        self.look.count_bytes(buf.len())?;
        let bytes = self.bytes.get(at, buf.len()).ok_or(Torn)?;
        if IN_LINE.contains(&buf.len()) {
            bytes.copy_to(0, buf);
        } else {
            copy_any(bytes, buf);
        }
        Ok(())
    }

    /// How the bytes at `at`, as many as `other` has, compare with `other`: byte by byte.
    #[inline(always)]
    pub fn compare(&self, at: usize, other: &[u8]) -> Result<Ordering, Torn> {
        self.look.count_bytes(other.len())?;
        compare_bytes(self.bytes.get(at, other.len()).ok_or(Torn)?, other).ok_or(Torn)
    }

    /// How all bytes of the view compare with `other`, as slices do: byte by byte, and a beginning comes before the whole.
    ///
    /// With [`part`](Self::part) this compares keys of changing lengths.
    #[inline]
    pub fn compare_all(&self, other: &[u8]) -> Result<Ordering, Torn> {
        let both = self.len().min(other.len());
        let order = self.compare(0, &other[..both])?;
        Ok(order.then(self.len().cmp(&other.len())))
    }

    /// Whether the view begins with the bytes of `prefix`; not if it is shorter.
    #[inline]
    pub fn starts_with(&self, prefix: &[u8]) -> Result<bool, Torn> {
        if prefix.len() > self.len() {
            return Ok(false);
        }
        Ok(self.compare(0, prefix)?.is_eq())
    }

    /// Whether these are exactly the bytes of `other`.
    #[inline]
    pub fn equals(&self, other: &[u8]) -> Result<bool, Torn> {
        Ok(self.len() == other.len() && self.starts_with(other)?)
    }

    /// The part in `range`, as a view of its own. It belongs to the same look.
    #[inline(always)]
    pub fn part(&self, range: Range<usize>) -> Result<Self, Torn> {
        let len = range.end.checked_sub(range.start).ok_or(Torn)?;
        let bytes = self.bytes.get(range.start, len).ok_or(Torn)?;
        Ok(View::new(bytes, self.look))
    }

    /// Searches `count` slots of `width` bytes each, the first of which is at `at`, by halves.
    ///
    /// `compare` gets the view and where a slot is in it, and says how that slot compares with what is searched for; so the slots are in
    /// ascending order. As [`slice::binary_search_by`] it gives the number of a slot that is equal (any of them, if there are
    /// several), or `Err` with the number of slots that are less: where such a slot would be. A `compare` that never says `Equal`
    /// finds the border between two groups. Slots in no order, as a torn page may have, give any number up to `count`.
    ///
    /// It takes less than 64 steps, whatever is in the page.
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
        self.look.count()?;
        let len = width.checked_mul(count).ok_or(Torn)?;
        // Below, no product or sum is more than these two.
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

impl View<'_, OfFile<'_>> {
    /// What the page is now, to be compared with what it is later ([`File::is_unchanged`](crate::File::is_unchanged)). A token is of the
    /// whole page, whatever part the view is of.
    ///
    /// It outlives the closure. If the page changes before the look ends, the token says so from the beginning, and the
    /// closure is called again; so return it along with the answer, as all that is to count.
    #[must_use]
    #[inline]
    pub fn token(&self) -> Token {
        self.look.watch.token()
    }
}

impl<W: Watch> fmt::Debug for View<'_, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View({} bytes)", self.len())
    }
}

/// Copies all of `bytes` to `buf`, which is as long. It gets the bytes by value: a view that was handed over by its address would have
/// to be in memory.
#[inline(never)]
fn copy_any(bytes: RacySource<'_>, buf: &mut [u8]) {
    bytes.copy_to(0, buf);
}

/// The order of all of `bytes` and `other`, which is as long: by words with the highest byte first. (None would say that it is
/// not.) The first word decides most comparisons, and is compared in line.
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

/// As [`compare_bytes`]; by value, as [`copy_any`].
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
    // What is left, by words that begin in what is equal; if it changes meanwhile, the answer is thrown away.
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
