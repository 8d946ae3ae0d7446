//! libCacheSim's oracleGeneral: records of 24 bytes, little endian, without gaps: time in seconds (32 bits), object (64), its
//! size (32), the next request of the same object (64 signed; -1 or the greatest number for none).
//!
//! An object counts as a page, whatever its size.

use crate::trace::request::{Bad, Op, Request, Span};
use crate::trace::source::Beginning;

/// Bytes of a record.
pub(in crate::trace) const RECORD: usize = 24;

struct Record {
    time: u32,
    object: u64,
    size: u32,
    next: i64,
}

fn decode(record: &[u8; RECORD]) -> Record {
    fn part<const N: usize>(record: &[u8; RECORD], at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&record[at..at + N]);
        bytes
    }
    Record {
        time: u32::from_le_bytes(part(record, 0)),
        object: u64::from_le_bytes(part(record, 4)),
        size: u32::from_le_bytes(part(record, 12)),
        next: i64::from_le_bytes(part(record, 16)),
    }
}

/// The request of a record; None if its object has no bytes.
pub(in crate::trace) fn request(record: &[u8; RECORD]) -> Result<Option<Request>, Bad> {
    let Record {
        time,
        object,
        size,
        next,
    } = decode(record);
    if next < -1 {
        return Err("a next request before the first");
    }
    if size == 0 {
        return Ok(None);
    }
    Ok(Some(Request {
        file: 0,
        span: Span::blocks(object, 1)?,
        op: Op::Read,
        time: Some(u64::from(time) * 1_000_000_000),
    }))
}

/// Whether bytes look like records: times that do not go back, and next requests, which are counted from the beginning of the trace,
/// that come later than the record.
pub(in crate::trace) fn is_likely(beginning: &[u8], whole: Beginning) -> bool {
    let (records, rest) = beginning.as_chunks::<RECORD>();
    if records.is_empty() || (whole == Beginning::All && records.len() < 8 && !rest.is_empty()) {
        return false;
    }
    let before = std::iter::once(&records[0]).chain(records);
    let nr_good = records
        .iter()
        .zip(before)
        .enumerate()
        .filter(|(nr, (record, before))| {
            let (record, before) = (decode(record), decode(before));
            let is_later = |next: i64| next > *nr as i64 && next < 1 << 48;
            let is_none = record.next == -1 || record.next == i64::MAX;
            (is_none || is_later(record.next)) && record.time >= before.time
        })
        .count();
    nr_good * 10 >= records.len() * 9
}
