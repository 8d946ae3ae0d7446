//! Change that a write makes to a page: replace bytes, or call a function on them.

use std::ops::Range;

use pagewell_frame::{FRAME_BYTES, FrameMeta, UniqueFrame};
use pagewell_sync::bytes::{RacyBytes, RacySource};

/// Change of one page, from byte `off` on. The kind of change is a type parameter, since a choice
/// at run time made writes of a few bytes a sixth slower.
#[derive(Clone, Copy)]
pub(crate) struct Edit<C> {
    pub(crate) off: usize,
    pub(crate) change: C,
    /// Log sequence number; 0 for none.
    pub(crate) lsn: u64,
}

pub(crate) trait Change: Copy {
    /// Whether the result is independent of the old bytes.
    const REPLACES: bool;

    fn len(self) -> usize;

    fn apply(self, bytes: RacyBytes<'_>);

    /// As [`apply`](Self::apply), but catches a panic of the program's function and returns its
    /// payload: the caller must publish the bytes in any case.
    fn apply_caught(self, bytes: RacyBytes<'_>) -> Option<Box<dyn std::any::Any + Send>>;
}

impl Change for &[u8] {
    const REPLACES: bool = true;

    #[inline(always)]
    fn len(self) -> usize {
        <[u8]>::len(self)
    }

    #[inline(always)]
    fn apply(self, bytes: RacyBytes<'_>) {
        bytes.copy_from(0, self);
    }

    #[inline(always)]
    fn apply_caught(self, bytes: RacyBytes<'_>) -> Option<Box<dyn std::any::Any + Send>> {
        self.apply(bytes);
        None
    }
}

/// Change by a function of the program, which may read and modify the bytes. It may be called again
/// if no reader can see the first result.
#[derive(Clone, Copy)]
pub(crate) struct Made<'b> {
    len: usize,
    make: &'b dyn Fn(RacyBytes<'_>),
}

impl Change for Made<'_> {
    const REPLACES: bool = false;

    fn len(self) -> usize {
        self.len
    }

    fn apply(self, bytes: RacyBytes<'_>) {
        (self.make)(bytes);
    }

    fn apply_caught(self, bytes: RacyBytes<'_>) -> Option<Box<dyn std::any::Any + Send>> {
        let apply = std::panic::AssertUnwindSafe(|| self.apply(bytes));
        std::panic::catch_unwind(apply).err()
    }
}

impl<'b> Edit<&'b [u8]> {
    pub(crate) fn bytes(off: usize, bytes: &'b [u8], lsn: u64) -> Self {
        let change = bytes;
        Self { off, change, lsn }
    }

    pub(crate) fn whole(bytes: &'b [u8], lsn: u64) -> Self {
        Self::bytes(0, bytes, lsn)
    }
}

impl<'b> Edit<Made<'b>> {
    pub(crate) fn made(range: Range<usize>, make: &'b dyn Fn(RacyBytes<'_>), lsn: u64) -> Self {
        let (off, len) = (range.start, range.len());
        let change = Made { len, make };
        Self { off, change, lsn }
    }
}

impl<C: Change> Edit<C> {
    #[inline(always)]
    pub(crate) fn bytes_of<'f>(self, frame: &'f UniqueFrame<'_>) -> RacyBytes<'f> {
        frame.bytes().slice(self.off, self.change.len())
    }

    #[inline(always)]
    pub(crate) fn apply(self, frame: &UniqueFrame<'_>) {
        self.change.apply(self.bytes_of(frame));
    }

    /// Whether the edit replaces all `len` bytes of the page within the file.
    pub(crate) fn covers(self, len: usize) -> bool {
        C::REPLACES && self.off == 0 && self.range().end >= len
    }

    /// Returns the bytes that need not be copied to the page's new frame before the edit.
    pub(crate) fn hole(self) -> Range<usize> {
        if C::REPLACES { self.range() } else { 0..0 }
    }

    pub(crate) fn lsn_after(self, record: &FrameMeta) -> u64 {
        let [_, lsn] = record.private();
        lsn.max(self.lsn)
    }

    #[inline(always)]
    pub(crate) fn range(self) -> Range<usize> {
        self.off..self.off + self.change.len()
    }
}

pub(crate) fn copy_around(from: RacySource<'_>, to: RacyBytes<'_>, hole: Range<usize>) {
    let mut piece = [0; FRAME_BYTES];
    let len = from.len();
    for start in (0..len).step_by(FRAME_BYTES) {
        let end = (start + FRAME_BYTES).min(len);
        if hole.start <= start && end <= hole.end {
            continue;
        }
        let piece = &mut piece[..end - start];
        from.copy_to(start, piece);
        to.copy_from(start, piece);
    }
}
