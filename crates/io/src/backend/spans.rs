//! Memory of a request, as a list of I/O vectors for the system.

#![allow(unsafe_code)] // Converts addresses to racy bytes.

use std::fmt;
use std::ptr::NonNull;

use pagewell_sync::bytes::{RacyBytes, RacySource};

/// One element of the list that `preadv` takes. A span guarantees nothing about the memory; the
/// creator of a [`Request`](super::Request) does.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Span(libc::iovec);

// SAFETY: the address is dereferenced only under the guarantee of a request's creator.
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
    /// Describes the `len` bytes at `start`.
    #[must_use]
    pub fn new(start: *mut u8, len: usize) -> Self {
        Self(libc::iovec {
            iov_base: start.cast(),
            iov_len: len,
        })
    }

    /// Returns the address of the first byte.
    #[must_use]
    pub fn start(self) -> *mut u8 {
        self.0.iov_base.cast()
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn len(self) -> usize {
        self.0.iov_len
    }

    /// Returns `true` if the span has no bytes.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    fn after(self, n: usize) -> Self {
        Self::new(self.start().wrapping_add(n), self.len() - n)
    }

    /// Safety: the obligations of [`RacyBytes::new`] hold for all of `'a`.
    unsafe fn bytes<'a>(self) -> RacyBytes<'a> {
        // An empty span may have a null address.
        let start = NonNull::new(self.start()).unwrap_or(NonNull::dangling());
        // SAFETY: as the caller guarantees.
        unsafe { RacyBytes::new(start, self.len()) }
    }
}

/// Memory of a request, as spans in order. Transferred bytes are removed from the front.
#[derive(Debug, Default)]
pub struct Spans {
    list: List,
    nr_bytes: usize,
}

#[derive(Debug)]
enum List {
    /// A single span, which needs no allocation.
    One(Span),
    /// The spans before `next` were transferred.
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
        // A sum that overflows violates the obligations of `Request` anyway.
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
    pub(crate) fn nr_bytes(&self) -> usize {
        self.nr_bytes
    }

    pub(crate) fn left(&self) -> &[Span] {
        match &self.list {
            List::One(span) => std::slice::from_ref(span),
            List::Many { spans, next } => &spans[*next..],
        }
    }

    /// Removes the first `n` bytes. Panics if fewer are left.
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

    /// Safety: the obligations of [`RacyBytes::new`] hold for each span while the result is used,
    /// except that the memory of a [`RacySource`] need not be writable.
    pub(crate) unsafe fn bytes<'s, B: From<RacyBytes<'s>>>(&'s self) -> Vec<B> {
        let bytes = |span: &Span| {
            // SAFETY: as the caller guarantees; no code writes through a source.
            B::from(unsafe { span.bytes() })
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
