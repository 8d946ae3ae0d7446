//! What a record says, and doing it again.
//!
//! A record has all that one call does to the pages, so after a crash it was done or not. Its first byte says what it is:
//!
//! - an insert or a removal: the page, and the entry. To be done again on a page that is what it was before;
//! - pages: the numbers and all bytes of some.
//!
//! **The first change of a page since the log was started over is a record with all of its bytes.** So to do all records again makes each
//! page what it was, whatever the storage has of it: also if it was torn when the power failed. No page needs to be looked at to find out
//! what it has already.

use pagewell::{File, Torn};

use super::bytes::Bytes;
use super::error::Error;
use super::log::{Log, take};
use super::node::{self, PAGE, Was};

const INSERT: u8 = 1;
const REMOVE: u8 = 2;
const PAGES: u8 = 3;

/// A change of one leaf.
#[derive(Clone, Copy)]
pub(super) enum Change<'c> {
    Insert(&'c [u8], &'c [u8]),
    Remove(&'c [u8]),
}

impl Change<'_> {
    /// Changes a leaf. `None` if there is no room; nothing has changed then.
    pub(super) fn apply(self, page: &mut [u8]) -> Result<Option<Was>, Torn> {
        match self {
            Change::Insert(key, value) => node::insert(page, key, value),
            Change::Remove(key) => node::remove(page, key).map(Some),
        }
    }

    /// Records that the change was made to `page`, which has these bytes now and had number `before`.
    pub(super) fn record(
        self,
        log: &Log,
        page: u64,
        bytes: &[u8],
        before: u64,
    ) -> Result<u64, Error> {
        if before <= log.base() {
            return record_pages(log, &[(page, bytes)]);
        }
        let (what, key, value): (u8, &[u8], &[u8]) = match self {
            Change::Insert(key, value) => (INSERT, key, value),
            Change::Remove(key) => (REMOVE, key, &[]),
        };
        let key_len = (key.len() as u16).to_le_bytes();
        log.append(&[&[what], &page.to_le_bytes(), &key_len, key, value])
    }
}

/// Records all bytes of some pages.
pub(super) fn record_pages(log: &Log, pages: &[(u64, &[u8])]) -> Result<u64, Error> {
    let numbers: Vec<_> = pages.iter().map(|(page, _)| page.to_le_bytes()).collect();
    let mut body: Vec<&[u8]> = vec![&[PAGES]];
    for (number, (_, bytes)) in numbers.iter().zip(pages) {
        body.extend([&number[..], bytes]);
    }
    log.append(&body)
}

/// Does a record again.
pub(super) fn redo(data: &File, lsn: u64, body: &[u8]) -> Result<(), Error> {
    let bad = || Error::BadRecord { lsn };
    let mut rest = body;
    let [what] = *take(&mut rest, 1).ok_or_else(bad)? else {
        return Err(bad());
    };
    let page = |rest: &mut &[u8]| take(rest, 8).and_then(|bytes| bytes.u64(0).ok());
    if what == PAGES {
        while !rest.is_empty() {
            let page = page(&mut rest).ok_or_else(bad)?;
            let mut bytes = take(&mut rest, PAGE).ok_or_else(bad)?.to_vec();
            node::set_lsn(&mut bytes, lsn).map_err(|Torn| bad())?;
            let at = page.checked_mul(PAGE as u64).ok_or_else(bad)?;
            data.write_at_lsn(&bytes, at, lsn)?;
        }
        return Ok(());
    }
    let page = page(&mut rest).ok_or_else(bad)?;
    let key_len = take(&mut rest, 2).and_then(|bytes| bytes.u16(0).ok());
    let key = take(&mut rest, key_len.ok_or_else(bad)?.into()).ok_or_else(bad)?;
    let change = match what {
        INSERT => Change::Insert(key, rest),
        REMOVE => Change::Remove(key),
        _ => return Err(bad()),
    };
    let mut guard = data.pin_mut(page)?;
    let done = change
        .apply(&mut guard)
        .and_then(|was| node::set_lsn(&mut guard, lsn).map(|()| was));
    match done {
        Ok(Some(_)) => {
            guard.set_lsn(lsn);
            Ok(())
        }
        Ok(None) | Err(Torn) => {
            guard.cancel();
            Err(bad())
        }
    }
}
