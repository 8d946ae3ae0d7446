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
//! That other reads' copies lie in between too changes nothing. What did not hit, or has changed, is read by itself;
//! what of that is missing, the engine reads together before ([`crate::read::flight`]).

use pagewell_frame::refcount::RefScheme;
use pagewell_sync::atomic::{Ordering, fence};

use crate::base::error::Error;
use crate::base::page::PageNr;
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
    /// Reads what hits of up to [`GROUP`] requests. Returns a bit for each of the others.
    #[inline]
    pub(crate) fn read_group(self, requests: &mut [ReadRequest<'_>]) -> u32 {
        let nr = requests.len().min(GROUP);
        let requests = &mut requests[..nr];
        // Loaded before the first atomic access; otherwise the compiler must load them again after each.
        let (page_shift, page_size) = (self.0.page_shift(), self.0.page_size());
        let (index, view) = (self.0.index().looker(), self.0.index().view());
        let split = |pos: u64| (pos >> page_shift, pos as usize & (page_size - 1));
        // 1.
        for request in &*requests {
            index.prefetch(split(request.offset).0);
        }
        // 2.
        let mut seen = [const { None }; GROUP];
        for at in 0..nr {
            let (pos, len) = (requests[at].offset, requests[at].buf.len());
            let (page, off) = split(pos);
            if let Some(slot) = index.look(page)
                && slot.slot.is_hot()
                && off + len <= page_size
                // After the slot, as step 3 of the optimistic read. The sum cannot overflow: see there.
                && pos + len as u64 <= self.0.size()
            {
                raw::prefetch_page(view, slot.slot.frame(), off, len.min(MOST_LINES * LINE));
                seen[at] = Some(slot);
            }
        }
        // 3.
        for at in 0..nr {
            if let Some(seen) = seen[at] {
                let request = &mut requests[at];
                let (_, off) = split(request.offset);
                raw::copy_page(view, seen.slot.frame(), off, request.buf);
            }
        }
        // 4.
        // ORDERING: Acquire fence; step 5 of the optimistic read, for all copies at once.
        fence(Ordering::Acquire);
        let mut others = 0_u32;
        for at in 0..nr {
            let request = &mut requests[at];
            match seen[at] {
                Some(seen) if seen.is_unchanged() => request.result = Ok(request.buf.len()),
                seen => {
                    others |= 1 << at;
                    if seen.is_some() {
                        // Foreign bytes, which nobody is to see, whatever becomes of the other reads.
                        request.buf.fill(0);
                    }
                }
            }
        }
        others
    }

    /// Asks for what views of up to [`GROUP`] pages will load first: the slots, and then the first lines of the pages.
    pub(crate) fn prefetch_pages(self, pages: &[PageNr]) {
        let index = self.0.index().looker();
        for &page in pages {
            index.prefetch(page);
        }
        for &page in pages {
            if let Some(seen) = index.look(page)
                && seen.slot.is_hot()
            {
                raw::prefetch_page(self.0.index().view(), seen.slot.frame(), 0, 2 * LINE);
            }
        }
    }
}
