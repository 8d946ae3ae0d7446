//! Direct transfers: aligned whole blocks without a copy, all other ranges through aligned memory.

use std::io;

use pagewell_sync::bytes::{RacyBytes, RacySource};

use super::gate::Gate;
use super::transfer;
use crate::aligned::Aligned;
use crate::backend::{Span, too_large, total_len};

/// Maximum number of bytes in aligned memory at a time. A multiple of every alignment.
const CHUNK: usize = 256 << 10;

/// Transfer of whole blocks, of a real or a simulated file.
pub trait Blocks {
    /// Reads whole blocks from `pos` on until the buffers are full or the file ends. May stop
    /// earlier at a number of bytes that is not a multiple of `unit`.
    fn read(&self, bufs: &[RacyBytes<'_>], pos: u64, unit: usize) -> io::Result<usize>;

    /// Writes all the blocks. The file afterwards ends at or after their end.
    fn write(&self, bufs: &[RacySource<'_>], pos: u64) -> io::Result<()>;

    /// Returns the current size, or `None` if the size cannot change.
    fn size_if_any(&self) -> io::Result<Option<u64>>;

    /// Sets the size after the last block of a write was written. The caller excludes other writes.
    fn set_size_apart(&self, size: u64) -> io::Result<()>;

    /// Returns `true` if the file ends at or before `pos`.
    fn ends_at(&self, pos: u64) -> bool;
}

/// Returns `true` if the spans can be transferred without a copy, in multiples of `unit` bytes.
pub fn are_aligned(spans: impl IntoIterator<Item = Span>, pos: u64, unit: usize) -> bool {
    let mut end = pos;
    let mut bits = pos as usize;
    for span in spans {
        bits |= span.start().addr() | span.len();
        end = end.saturating_add(span.len() as u64);
    }
    bits.is_multiple_of(unit) && end <= transfer::MOST_BYTES
}

/// Reads any range of a file. [`Backend::read_at`](crate::Backend::read_at) states the result.
pub fn read(
    file: &impl Blocks,
    bufs: &[RacyBytes<'_>],
    pos: u64,
    unit: usize,
) -> io::Result<usize> {
    let room = transfer::MOST_BYTES.saturating_sub(pos);
    let total = total_len(bufs).min(usize::try_from(room).unwrap_or(usize::MAX));
    let end = pos.saturating_add(total as u64);
    let mut at = pos;
    if are_aligned(bufs.iter().map(|buf| Span::from(*buf)), pos, unit) {
        at += file.read(bufs, pos, unit)? as u64;
        if at == end || (at - pos).is_multiple_of(unit as u64) {
            return Ok((at - pos) as usize);
        }
        // The read ended within a block. If the file goes on, read the rest through aligned memory.
    }
    if at == end || file.ends_at(at) {
        return Ok((at - pos) as usize);
    }
    let memory = Aligned::new(chunk(at, end, unit), unit);
    let mut rest = Cursor::new(bufs);
    rest.skip((at - pos) as usize);
    while at < end {
        let (skip, len) = ((at % unit as u64) as usize, chunk(at, end, unit));
        let bytes = memory.bytes().slice(0, len);
        let nr = file.read(&[bytes], at - skip as u64, unit)?;
        let nr_new = nr.saturating_sub(skip).min((end - at) as usize);
        rest.fill(bytes.slice(skip, nr_new));
        at += nr_new as u64;
        if nr_new == 0 || (nr < len && file.ends_at(at)) {
            break;
        }
    }
    Ok((at - pos) as usize)
}

/// Writes of whole aligned blocks run concurrently; any other write is exclusive in its backend.
pub fn write(
    file: &impl Blocks,
    gate: &Gate,
    bufs: &[RacySource<'_>],
    pos: u64,
    unit: usize,
) -> io::Result<()> {
    if are_aligned(bufs.iter().map(|buf| Span::from(*buf)), pos, unit) {
        let _shared = gate.share();
        return file.write(bufs, pos);
    }
    let _alone = gate.alone();
    write_parts(file, bufs, pos, unit)
}

/// The caller holds the gate alone. A partial tail block first makes the file too long.
fn write_parts(
    file: &impl Blocks,
    bufs: &[RacySource<'_>],
    pos: u64,
    unit: usize,
) -> io::Result<()> {
    let size = file.size_if_any()?;
    let total = total_len(bufs) as u64;
    if total == 0 {
        return Ok(());
    }
    let end = pos.checked_add(total).ok_or_else(too_large)?;
    // The last block is written whole.
    let end_of_block = end.checked_next_multiple_of(unit as u64);
    if end_of_block.is_none_or(|end| end > transfer::MOST_BYTES) {
        return Err(too_large());
    }
    let memory = Aligned::new(chunk(pos, end, unit), unit);
    let mut rest = Cursor::new(bufs);
    let mut at = pos;
    while at < end {
        let (skip, len) = ((at % unit as u64) as usize, chunk(at, end, unit));
        let bytes = memory.bytes().slice(0, len);
        let start = at - skip as u64;
        let nr_new = ((end - at) as usize).min(len - skip);
        // Blocks that keep some of their bytes: the first, the last, or one that is both.
        let last = len - unit;
        if skip != 0 {
            read_block(file, bytes.slice(0, unit), start, unit)?;
        }
        if skip + nr_new != len && (skip == 0 || last != 0) {
            read_block(file, bytes.slice(last, unit), start + last as u64, unit)?;
        }
        rest.drain(bytes.slice(skip, nr_new));
        file.write(&[bytes.source()], start)?;
        at += nr_new as u64;
    }
    match size {
        Some(size) if end.next_multiple_of(unit as u64) > size.max(end) => {
            file.set_size_apart(size.max(end))
        }
        _ => Ok(()),
    }
}

/// Reads a block, and zeros its bytes past the file's end. Fails if the read stops before that end.
fn read_block(file: &impl Blocks, bytes: RacyBytes<'_>, pos: u64, unit: usize) -> io::Result<()> {
    let nr = file.read(&[bytes], pos, unit)?;
    if nr < bytes.len() && !file.ends_at(pos + nr as u64) {
        let read = format!("the read of the block at {pos} stopped after {nr} bytes");
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, read));
    }
    bytes.zero(nr, bytes.len() - nr);
    Ok(())
}

/// Returns the number of bytes, in whole blocks, of the next transfer from `at` towards `end`.
fn chunk(at: u64, end: u64, unit: usize) -> usize {
    let unit = unit as u64;
    let start = at - at % unit;
    // The maximum file offset is far below `u64::MAX`.
    let blocks = end.next_multiple_of(unit) - start;
    blocks.min(CHUNK as u64) as usize
}

struct Cursor<'b, B> {
    bufs: &'b [B],
    off: usize,
}

impl<'b, 'a, B: Into<RacySource<'a>> + Copy> Cursor<'b, B> {
    fn new(bufs: &'b [B]) -> Self {
        Self { bufs, off: 0 }
    }

    /// Calls `with` for each buffer that has some of the next `len` bytes. Arguments: the buffer,
    /// the offset and the number of these bytes in it, and their number in earlier buffers.
    fn each(&mut self, len: usize, mut with: impl FnMut(B, usize, usize, usize)) {
        let mut nr_done = 0;
        while nr_done < len {
            let Some((&buf, later)) = self.bufs.split_first() else {
                return;
            };
            let nr = (buf.into().len() - self.off).min(len - nr_done);
            with(buf, self.off, nr, nr_done);
            nr_done += nr;
            self.off += nr;
            if self.off == buf.into().len() {
                (self.bufs, self.off) = (later, 0);
            }
        }
    }

    fn skip(&mut self, len: usize) {
        self.each(len, |_, _, _, _| ());
    }

    fn drain(&mut self, to: RacyBytes<'_>) {
        self.each(to.len(), |buf, off, nr, before| {
            to.copy_from_racy(before, buf.into().slice(off, nr));
        });
    }
}

impl Cursor<'_, RacyBytes<'_>> {
    fn fill(&mut self, from: RacyBytes<'_>) {
        self.each(from.len(), |buf, off, nr, before| {
            buf.copy_from_racy(off, from.slice(before, nr));
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use pagewell_sync::atomic::AtomicU64;

    use super::*;

    /// A file of any size whose reads find no bytes. Records the ranges that are written.
    struct Sparse {
        written: Mutex<Vec<(u64, usize)>>,
        is_empty: bool,
    }

    impl Sparse {
        fn new(is_empty: bool) -> Self {
            Self {
                written: Mutex::default(),
                is_empty,
            }
        }
    }

    impl Blocks for Sparse {
        fn read(&self, _bufs: &[RacyBytes<'_>], _pos: u64, _unit: usize) -> io::Result<usize> {
            Ok(0)
        }

        fn write(&self, bufs: &[RacySource<'_>], pos: u64) -> io::Result<()> {
            self.written.lock().unwrap().push((pos, total_len(bufs)));
            Ok(())
        }

        fn size_if_any(&self) -> io::Result<Option<u64>> {
            Ok(None)
        }

        fn set_size_apart(&self, _size: u64) -> io::Result<()> {
            unreachable!("its size does not change")
        }

        fn ends_at(&self, _pos: u64) -> bool {
            self.is_empty
        }
    }

    /// The kept bytes of the block are unknown, so they must not be written as zeros.
    #[test]
    fn a_block_whose_read_stops_before_the_end_of_the_file_is_not_written() {
        const UNIT: usize = 512;
        let words = [const { AtomicU64::new(0) }; 2];
        let bytes = RacyBytes::from_words(&words);
        for pos in [8, UNIT as u64 - bytes.len() as u64, UNIT as u64] {
            let file = Sparse::new(false);
            let error = write(&file, &Gate::default(), &[bytes.source()], pos, UNIT).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{pos}");
            assert_eq!(file.written.into_inner().unwrap(), [], "{pos}");
        }
    }

    #[test]
    fn parts_of_blocks_are_written_up_to_the_last_whole_block() {
        const UNIT: usize = 512;
        let end = transfer::MOST_BYTES / UNIT as u64 * UNIT as u64;
        let words = [const { AtomicU64::new(0) }; 2];
        let bytes = RacyBytes::from_words(&words);
        let write_at = |pos| {
            let file = Sparse::new(true);
            let written = write(&file, &Gate::default(), &[bytes.source()], pos, UNIT);
            written.map(|()| file.written.into_inner().unwrap())
        };
        let last = end - bytes.len() as u64;
        let block = end - UNIT as u64;
        assert_eq!(write_at(last).unwrap(), [(block, UNIT)]);
        for pos in [last + 1, end, transfer::MOST_BYTES, u64::MAX - 20, u64::MAX] {
            let error = write_at(pos).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::FileTooLarge, "{pos}");
        }
    }
}
