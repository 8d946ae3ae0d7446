//! Reading at many places at once.
//!
//! One short read at a random place waits for two lines of memory, one after the other: its slot, and its bytes. Reads of a batch wait
//! together. A group of them is taken through each step before any goes on to the next:
//!
//! 1. Ask for all slots' lines.
//! 2. Load the slots, as step 1 to 3 of the optimistic read ([`crate::read::reader`]), and ask for the lines of the bytes.
//! 3. Copy all.
//! 4. One acquire fence; then load all slots again.
//!
//! The argument is that of one read: between the two loads of a slot lies the copy, and the fence between the copy and the second load.
//! That other reads' copies lie in between too changes nothing. What did not hit, or has changed, is read by itself.

use pagewell_frame::refcount::RefScheme;
use pagewell_sync::atomic::{Ordering, fence};

use crate::base::error::Error;
use crate::base::page::PageNr;
use crate::index::file_index::Seen;
use crate::read::raw;
use crate::read::reader::Reader;

/// How many reads go together. More of them are no faster: a processor waits for ten to twenty lines at a time.
pub(crate) const GROUP: usize = 16;

/// How many lines of a read's bytes are asked for; the processor finds the rest of a longer one by itself.
const MOST_LINES: usize = 4;
const LINE: usize = 64;

/// One of many reads: [`File::read_many`](crate::File::read_many).
#[derive(Debug)]
pub struct ReadRequest<'b> {
    /// The byte of the file to begin at.
    pub offset: u64,
    /// What to read into.
    pub buf: &'b mut [u8],
    /// What [`File::read_at`](crate::File::read_at) returns; how many bytes were read.
    pub result: Result<usize, Error>,
}

impl<'b> ReadRequest<'b> {
    /// A request to fill `buf` with the bytes from `offset` on.
    pub fn new(offset: u64, buf: &'b mut [u8]) -> Self {
        Self {
            offset,
            buf,
            result: Ok(0),
        }
    }
}

impl<S: RefScheme> Reader<'_, S> {
    /// Reads what hits of up to [`GROUP`] requests; `other` reads the rest, one by one.
    #[inline]
    pub(crate) fn read_group(
        self,
        requests: &mut [ReadRequest<'_>],
        mut other: impl FnMut(&mut ReadRequest<'_>),
    ) {
        debug_assert!(requests.len() <= GROUP);
        // 1.
        for request in &*requests {
            let (page, _) = self.split(request.offset);
            self.0.index().prefetch(page);
        }
        // 2.
        let mut seen = [const { None }; GROUP];
        for (request, seen) in requests.iter().zip(&mut seen) {
            *seen = self.look_ahead(request.offset, request.buf.len());
        }
        // 3.
        let view = self.0.index().view();
        for (request, seen) in requests.iter_mut().zip(&seen) {
            if let Some(seen) = seen {
                let (_, off) = self.split(request.offset);
                raw::copy_page(view, seen.slot.frame(), off, request.buf);
            }
        }
        // 4.
        // ORDERING: Acquire fence; step 5 of the optimistic read, for all copies at once.
        fence(Ordering::Acquire);
        for (request, seen) in requests.iter_mut().zip(&seen) {
            match seen {
                Some(seen) if seen.is_unchanged() => request.result = Ok(request.buf.len()),
                _ => other(request),
            }
        }
    }

    /// The slot of a read that is within one page, and hot; the lines of its bytes are asked for.
    #[inline]
    fn look_ahead(&self, pos: u64, len: usize) -> Option<Seen<'_>> {
        let (page, off) = self.split(pos);
        if off + len > self.0.page_size() {
            return None;
        }
        let seen = self.0.index().look(page)?;
        if !seen.slot.is_hot() {
            return None;
        }
        // After the slot, as step 3 of the optimistic read. The sum cannot overflow: see there.
        if pos + len as u64 > self.0.size() {
            return None;
        }
        let view = self.0.index().view();
        raw::prefetch_page(view, seen.slot.frame(), off, len.min(MOST_LINES * LINE));
        Some(seen)
    }

    /// Asks for what views of up to [`GROUP`] pages will load first: the slots, and then the first lines of the pages.
    pub(crate) fn prefetch_pages(self, pages: &[PageNr]) {
        for &page in pages {
            self.0.index().prefetch(page);
        }
        for &page in pages {
            if let Some(seen) = self.0.index().look(page)
                && seen.slot.is_hot()
            {
                raw::prefetch_page(self.0.index().view(), seen.slot.frame(), 0, 2 * LINE);
            }
        }
    }
}
