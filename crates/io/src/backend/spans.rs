//! The memory of a request, as a list that the system understands.

#![allow(unsafe_code)] // From addresses back to racy bytes.

use std::fmt;
use std::ptr::NonNull;

use pagewell_sync::bytes::{RacyBytes, RacySource};

/// The bytes from an address on: an element of the list that `preadv` takes.
///
/// It is an address and a length, and promises nothing. Who makes a [`Request`](super::Request) of it promises that the memory is there.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Span(libc::iovec);

// SAFETY: an address and a length, which are never followed without the promise of who made a request of them.
unsafe impl Send for Span {}
// SAFETY: as above.
unsafe impl Sync for Span {}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Span")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl From<RacyBytes<'_>> for Span {
    fn from(bytes: RacyBytes<'_>) -> Self {
        Self::new(bytes.as_ptr(), bytes.len())
    }
}

impl From<RacySource<'_>> for Span {
    fn from(bytes: RacySource<'_>) -> Self {
        Self::new(bytes.as_ptr().cast_mut(), bytes.len())
    }
}

impl Span {
    /// The `len` bytes at `start`.
    #[must_use]
    pub fn new(start: *mut u8, len: usize) -> Self {
        Self(libc::iovec {
            iov_base: start.cast(),
            iov_len: len,
        })
    }

    /// The address of the first byte.
    #[must_use]
    pub fn start(self) -> *mut u8 {
        self.0.iov_base.cast()
    }

    /// How many bytes these are.
    #[must_use]
    pub fn len(self) -> usize {
        self.0.iov_len
    }

    /// Whether these are no bytes at all.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The bytes after the first `n`, of which there are as many.
    fn after(self, n: usize) -> Self {
        Self::new(self.start().wrapping_add(n), self.len() - n)
    }

    /// The bytes themselves.
    ///
    /// # Safety
    ///
    /// The duties of [`RacyBytes::new`], for all of `'a`.
    unsafe fn bytes<'a>(self) -> RacyBytes<'a> {
        // No memory has no address, and needs none.
        let start = NonNull::new(self.start()).unwrap_or(NonNull::dangling());
        // SAFETY: as the caller promises.
        unsafe { RacyBytes::new(start, self.len()) }
    }
}

/// The memory of a request: one span after the other. What was transferred is taken off at the front.
#[derive(Debug, Default)]
pub struct Spans {
    list: List,
    /// How many bytes are left.
    nr_bytes: usize,
}

#[derive(Debug)]
enum List {
    /// One: most requests. It takes no allocation.
    One(Span),
    /// Those from `next` on are left.
    Many { spans: Vec<Span>, next: usize },
}

impl Default for List {
    fn default() -> Self {
        Self::Many {
            spans: Vec::new(),
            next: 0,
        }
    }
}

impl From<Span> for Spans {
    fn from(span: Span) -> Self {
        Self {
            list: List::One(span),
            nr_bytes: span.len(),
        }
    }
}

impl From<Vec<Span>> for Spans {
    fn from(spans: Vec<Span>) -> Self {
        // Saturating: no memory has so many bytes, and who lies about that has broken a promise of `Request`.
        let nr_bytes = spans
            .iter()
            .fold(0, |sum: usize, span| sum.saturating_add(span.len()));
        Self {
            list: List::Many { spans, next: 0 },
            nr_bytes,
        }
    }
}

impl Spans {
    /// How many bytes are left.
    pub(crate) fn nr_bytes(&self) -> usize {
        self.nr_bytes
    }

    /// What is left.
    pub(crate) fn left(&self) -> &[Span] {
        match &self.list {
            List::One(span) => std::slice::from_ref(span),
            List::Many { spans, next } => &spans[*next..],
        }
    }

    /// Takes the first `n` bytes off, of which there are as many.
    pub(crate) fn advance(&mut self, n: usize) {
        assert!(
            n <= self.nr_bytes,
            "more was transferred than was asked for"
        );
        self.nr_bytes -= n;
        match &mut self.list {
            List::One(span) => *span = span.after(n),
            List::Many { spans, next } => {
                let mut n = n;
                while let Some(span) = spans.get_mut(*next)
                    && n >= span.len()
                {
                    n -= span.len();
                    *next += 1;
                }
                if let Some(span) = spans.get_mut(*next) {
                    *span = span.after(n);
                }
            }
        }
    }

    /// What is left, to be written to.
    ///
    /// # Safety
    ///
    /// The duties of [`RacyBytes::new`] for each span, for as long as the answer is used.
    pub(crate) unsafe fn racy(&self) -> Vec<RacyBytes<'_>> {
        let bytes = |span: &Span| {
            // SAFETY: as the caller promises.
            unsafe { span.bytes() }
        };
        self.left().iter().map(bytes).collect()
    }

    /// What is left, to be read.
    ///
    /// # Safety
    ///
    /// As for [`racy`](Self::racy), but that the memory need not be writable.
    pub(crate) unsafe fn sources(&self) -> Vec<RacySource<'_>> {
        let bytes = |span: &Span| {
            // SAFETY: as the caller promises; nothing writes by way of a source.
            RacySource::from(unsafe { span.bytes() })
        };
        self.left().iter().map(bytes).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lens(spans: &Spans) -> Vec<(usize, usize)> {
        let of = |span: &Span| (span.start().addr(), span.len());
        spans.left().iter().map(of).collect()
    }

    #[test]
    fn what_was_transferred_is_taken_off_across_spans_and_empty_ones() {
        let span = |start: usize, len| Span::new(std::ptr::without_provenance_mut(start), len);
        let mut spans = Spans::from(vec![span(100, 3), span(200, 0), span(300, 5), span(400, 0)]);
        assert_eq!(spans.nr_bytes(), 8);
        spans.advance(0);
        assert_eq!(spans.nr_bytes(), 8);
        spans.advance(2);
        assert_eq!(lens(&spans), [(102, 1), (200, 0), (300, 5), (400, 0)]);
        spans.advance(1);
        assert_eq!(lens(&spans), [(300, 5), (400, 0)]);
        spans.advance(4);
        assert_eq!(lens(&spans), [(304, 1), (400, 0)]);
        spans.advance(1);
        assert_eq!((spans.nr_bytes(), lens(&spans)), (0, vec![]));

        let mut one = Spans::from(span(100, 8));
        one.advance(5);
        assert_eq!((one.nr_bytes(), lens(&one)), (3, vec![(105, 3)]));
        assert_eq!(Spans::default().nr_bytes(), 0);
    }

    #[test]
    #[should_panic(expected = "more was transferred")]
    fn more_than_there_is_cannot_be_taken_off() {
        Spans::from(vec![]).advance(1);
    }
}
