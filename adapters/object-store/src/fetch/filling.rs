//! Requests of the cache, which are filled with received bytes.

use std::ops::Range;

use bytes::Bytes;
use object_store::Extensions;
use pagewell::io::engine::Request;

use crate::error::Shared;

#[derive(Debug)]
pub(crate) struct Filling {
    request: Request,
    /// Requested range. Ends at the latest at the end of the object, which may be within a page.
    range: Range<u64>,
    extensions: Extensions,
}

impl Filling {
    pub(crate) fn new(request: Request, size: u64, extensions: Extensions) -> Self {
        let start = request.pos().min(size);
        let end = request
            .pos()
            .saturating_add(request.nr_left() as u64)
            .min(size);
        Self {
            request,
            range: start..end.max(start),
            extensions,
        }
    }

    pub(crate) fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    pub(crate) fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    /// Copies the part of `bytes` that is in the range. `bytes` begin at `pos` of the object.
    pub(crate) fn copy(&self, bytes: &Bytes, pos: u64) {
        let start = self.range.start.max(pos);
        let end = self.range.end.min(pos.saturating_add(bytes.len() as u64));
        if start >= end {
            return;
        }
        let mut rest = &bytes[(start - pos) as usize..(end - pos) as usize];
        let mut skip = (start - self.request.pos()) as usize;
        for buffer in self.request.buffers() {
            if skip >= buffer.len() {
                skip -= buffer.len();
                continue;
            }
            let (now, later) = rest.split_at(rest.len().min(buffer.len() - skip));
            buffer.copy_from(skip, now);
            skip = 0;
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
    }

    /// Returns bytes that the caller has already copied to this request.
    pub(crate) fn bytes(&self, range: Range<u64>) -> Vec<u8> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let mut skip = (range.start - self.request.pos()) as usize;
        let mut rest = &mut bytes[..];
        for buffer in self.request.buffers() {
            if skip >= buffer.len() {
                skip -= buffer.len();
                continue;
            }
            let nr = rest.len().min(buffer.len() - skip);
            let (now, later) = rest.split_at_mut(nr);
            buffer.source().copy_to(skip, now);
            skip = 0;
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        bytes
    }

    /// Completes the request, to which the caller has copied the bytes of the whole range.
    pub(crate) fn done(self) {
        let nr = (self.range.end - self.range.start) as usize;
        let nr_done = self.request.nr_done();
        self.request.complete(Ok(nr_done + nr));
    }

    pub(crate) fn fail(self, error: Shared) {
        self.request.complete(Err(error.into_io()));
    }
}
