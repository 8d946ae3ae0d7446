//! Contents of log records, and redo.
//!
//! One record contains all changes of one operation, so recovery applies the operation completely
//! or not at all. The first byte of a record is its kind:
//!
//! - an insert into one leaf: page number, key, value;
//! - page images: the numbers and all bytes of some pages.
//!
//! **The first change of a page after a restart of the log is recorded as a page image.** So redo
//! of all records, in order, restores each page whatever the storage contains of it, also after a
//! torn write. Redo compares no log sequence numbers.

use pagewell::{File, Torn};

use super::access::{Bytes as _, part};
use super::error::Error;
use super::log::Log;
use super::node::{self, PAGE};

const INSERT: u8 = 1;
const IMAGES: u8 = 2;

/// Records an insert into a leaf, which has these bytes now, and had number `before`.
pub(super) fn record_insert(
    log: &Log,
    (page, bytes): (u64, &[u8]),
    before: u64,
    (key, value): (&[u8], &[u8]),
) -> Result<u64, Error> {
    if before <= log.base() {
        return record_images(log, &[(page, bytes)]);
    }
    let key_len = (key.len() as u16).to_le_bytes();
    log.append(&[&[INSERT], &page.to_le_bytes(), &key_len, key, value])
}

/// Records all bytes of some pages.
pub(super) fn record_images(log: &Log, pages: &[(u64, &[u8])]) -> Result<u64, Error> {
    let numbers: Vec<_> = pages.iter().map(|(page, _)| page.to_le_bytes()).collect();
    let mut body: Vec<&[u8]> = vec![&[IMAGES]];
    for (number, (_, bytes)) in numbers.iter().zip(pages) {
        body.extend([&number[..], bytes]);
    }
    log.append(&body)
}

/// Removes the first `len` bytes of `body`, and returns them.
fn take<'b>(body: &mut &'b [u8], len: usize) -> Result<&'b [u8], Torn> {
    let taken = part(body, 0, len)?;
    *body = &body[len..];
    Ok(taken)
}

/// Applies a record.
pub(super) fn redo(data: &File, lsn: u64, body: &[u8]) -> Result<(), Error> {
    let bad = |Torn| Error::BadRecord { lsn };
    let mut rest = body;
    match take(&mut rest, 1).map_err(bad)? {
        [IMAGES] => {
            while !rest.is_empty() {
                let page = take(&mut rest, 8)
                    .and_then(|page| page.u64(0))
                    .map_err(bad)?;
                let mut bytes = take(&mut rest, PAGE).map_err(bad)?.to_vec();
                node::set_lsn(&mut bytes, lsn).map_err(bad)?;
                let at = page.checked_mul(PAGE as u64).ok_or(Torn).map_err(bad)?;
                data.write_at_lsn(&bytes, at, lsn)?;
            }
            Ok(())
        }
        [INSERT] => {
            let page = take(&mut rest, 8)
                .and_then(|page| page.u64(0))
                .map_err(bad)?;
            let key_len = take(&mut rest, 2).and_then(|len| len.u16(0)).map_err(bad)?;
            let key = take(&mut rest, key_len.into()).map_err(bad)?;
            let mut guard = data.pin_mut(page)?;
            let done = node::insert(&mut guard, key, rest)
                .and_then(|before| before.ok_or(Torn))
                .and_then(|_| node::set_lsn(&mut guard, lsn));
            match done {
                Ok(()) => guard.set_lsn(lsn),
                Err(Torn) => guard.cancel(),
            }
            done.map_err(bad)
        }
        _ => Err(bad(Torn)),
    }
}
