//! Batches of reads at many positions.
//!
//! A short read at a random position waits for two cache lines in turn: its slot and its bytes. A
//! group overlaps these waits: all of its reads complete a step before any begins the next.
//!
//! 1. Prefetch the lines of all slots.
//! 2. Load the slots, as in steps 1 to 3 of the optimistic read ([`crate::read::reader`]), and
//!    prefetch the lines of the bytes.
//! 3. Copy all bytes.
//! 4. Execute one acquire fence, then reload all slots.
//!
//! The argument for one read applies to each: its copy, and then the fence, lie between the two
//! loads of its slot. A request that does not hit, or whose slot has changed, is afterwards read on
//! its own, after the I/O engine has read the missing pages of these requests together
//! ([`crate::read::flight`]).

use pagewell_sync::atomic::{Ordering, fence};

use crate::base::error::Error;
use crate::read::raw;
use crate::read::reader::Reader;

/// Maximum number of reads in a group: a processor waits for ten to twenty lines at a time.
pub(crate) const GROUP: usize = 16;

/// Maximum number of lines to prefetch for a read. The processor itself prefetches the rest.
const MOST_LINES: usize = 4;
const LINE: usize = 64;

/// One read of a batch: [`File::read_many`](crate::File::read_many).
#[derive(Debug)]
pub struct ReadRequest<'b> {
    /// Position in the file.
    pub offset: u64,
    /// Buffer to read into.
    pub buf: &'b mut [u8],
    /// Number of bytes read, as [`File::read_at`](crate::File::read_at) returns it.
    pub result: Result<usize, Error>,
}

impl<'b> ReadRequest<'b> {
    /// Creates a request to fill `buf` with the bytes from `offset` on.
    pub fn new(offset: u64, buf: &'b mut [u8]) -> Self {
        Self {
            offset,
            buf,
            result: Ok(0),
        }
    }
}

impl Reader<'_> {
    /// Performs the hits among up to [`GROUP`] requests. Returns a set bit for each other request.
    #[inline]
    pub(crate) fn read_group(self, requests: &mut [ReadRequest<'_>]) -> u32 {
        let nr = requests.len().min(GROUP);
        let requests = &mut requests[..nr];
        // Loaded before the first atomic access: the compiler reloads fields after one.
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
                // Load the size after the slot: step 3 of the optimistic read. No sum overflows.
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
                        // The buffer may have bytes of another page, which the caller must not see.
                        request.buf.fill(0);
                    }
                }
            }
        }
        others
    }
}
