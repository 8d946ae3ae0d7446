//! A space as plain bytes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use pagewell_space::{Error, ErrorKind, Protection, Space};

const PAGE: u64 = 4096;

/// What there is to know of 4 KiB of addresses that are mapped.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mapped {
    page_bytes: u64,
    protection: Protection,
}

/// A space as plain bytes. To clone it is to fork it.
#[derive(Clone, Default)]
pub struct Model {
    mapped: BTreeMap<u64, Mapped>,
    bytes: BTreeMap<u64, Rc<Vec<u8>>>,
}

fn pages(range: &Range<u64>) -> Range<u64> {
    range.start / PAGE..range.end.div_ceil(PAGE)
}

/// The parts of `addr..end` that are each within a page: where they begin, and how long they are.
fn pieces(addr: u64, end: u64) -> impl Iterator<Item = (u64, usize)> {
    let mut at = addr;
    std::iter::from_fn(move || {
        let start = at;
        at = end.min((start / PAGE + 1) * PAGE);
        (start < end).then(|| (start, (at - start) as usize))
    })
}

impl Model {
    /// A page that is mapped, by a random number.
    pub fn nth_page(&self, random: u64) -> Option<u64> {
        // Pages that were written are the ones where something can go wrong.
        let nr_used = self.bytes.len() as u64;
        if nr_used > 0 && !random.is_multiple_of(4) {
            return self
                .bytes
                .keys()
                .nth((random / 4 % nr_used) as usize)
                .copied();
        }
        let nr = self.mapped.len() as u64;
        (nr > 0).then(|| self.mapped.keys().nth((random / 4 % nr) as usize).copied())?
    }

    /// The neighbours of `addr` that are mapped in the same way, and the size of their pages.
    pub fn area_of(&self, addr: u64) -> Option<(Range<u64>, u64)> {
        let here = *self.mapped.get(&(addr / PAGE))?;
        let is_same = |page: &u64| self.mapped.get(page) == Some(&here);
        let mut first = addr / PAGE;
        while first > 0 && is_same(&(first - 1)) {
            first -= 1;
        }
        let mut end = addr / PAGE;
        while is_same(&end) {
            end += 1;
        }
        Some((first * PAGE..end * PAGE, here.page_bytes))
    }

    pub fn map(&mut self, range: Range<u64>, page_bytes: u64) {
        for page in pages(&range) {
            let mapped = Mapped {
                page_bytes,
                protection: Protection::ReadWrite,
            };
            assert!(self.mapped.insert(page, mapped).is_none(), "mapped twice");
        }
    }

    /// Checks what came of something that is done to a whole range or not at all; whether it was done.
    pub fn expect_whole(&self, range: &Range<u64>, result: &Result<(), Error>) -> bool {
        let is_mapped =
            !range.is_empty() && pages(range).all(|page| self.mapped.contains_key(&page));
        let is_aligned = is_mapped && {
            let first = self.mapped[&(range.start / PAGE)].page_bytes;
            let last = self.mapped[&((range.end - 1) / PAGE)].page_bytes;
            range.start.is_multiple_of(first) && range.end.is_multiple_of(last)
        };
        match result {
            Ok(()) => assert!(is_aligned),
            Err(error) => match error.kind() {
                ErrorKind::InvalidRange => assert!(range.is_empty()),
                ErrorKind::Unmapped => assert!(!is_mapped),
                ErrorKind::Misaligned => assert!(!is_aligned),
                ErrorKind::OutOfFrames => assert!(is_aligned),
                _ => panic!("{error}"),
            },
        }
        result.is_ok()
    }

    pub fn unmap(&mut self, range: &Range<u64>) {
        for page in pages(range) {
            self.mapped.remove(&page);
            self.bytes.remove(&page);
        }
    }

    pub fn protect(&mut self, range: &Range<u64>, protection: Protection) {
        for page in pages(range) {
            self.mapped.get_mut(&page).unwrap().protection = protection;
        }
    }

    pub fn move_to(&mut self, range: &Range<u64>, start: u64) {
        for page in pages(range) {
            let to = page - range.start / PAGE + start / PAGE;
            let mapped = self.mapped.remove(&page).unwrap();
            assert!(
                self.mapped.insert(to, mapped).is_none(),
                "moved over something"
            );
            if let Some(bytes) = self.bytes.remove(&page) {
                self.bytes.insert(to, bytes);
            }
        }
    }

    /// The first address from `addr` on, below `end`, that may not be accessed, and why.
    fn refused(
        &self,
        addr: u64,
        end: u64,
        is_allowed: impl Fn(Protection) -> bool,
    ) -> Option<(u64, ErrorKind)> {
        pieces(addr, end).find_map(|(at, _)| match self.mapped.get(&(at / PAGE)) {
            None => Some((at, ErrorKind::Unmapped)),
            Some(mapped) if !is_allowed(mapped.protection) => Some((at, ErrorKind::Protected)),
            Some(_) => None,
        })
    }

    /// Writes `bytes`, as far as `result` says that they were.
    pub fn write(&mut self, addr: u64, bytes: &[u8], result: &Result<(), Error>) {
        let mut end = addr + bytes.len() as u64;
        let refused = self.refused(addr, end, |protection| protection == Protection::ReadWrite);
        match (result, refused) {
            (Ok(()), refused) => assert_eq!(refused, None),
            (Err(error), refused) => {
                let stopped = error.addr().unwrap();
                if error.kind() == ErrorKind::OutOfFrames {
                    assert!(refused.is_none_or(|(at, _)| stopped <= at));
                } else {
                    assert_eq!(Some((stopped, error.kind())), refused);
                }
                end = stopped;
            }
        }
        for (at, len) in pieces(addr, end) {
            let page = self
                .bytes
                .entry(at / PAGE)
                .or_insert_with(|| Rc::new(vec![0; PAGE as usize]));
            Rc::make_mut(page)[(at % PAGE) as usize..][..len]
                .copy_from_slice(&bytes[(at - addr) as usize..][..len]);
        }
    }

    fn copy(&self, addr: u64, end: u64, buf: &mut [u8]) {
        for (at, len) in pieces(addr, end) {
            let buf = &mut buf[(at - addr) as usize..][..len];
            match self.bytes.get(&(at / PAGE)) {
                Some(page) => buf.copy_from_slice(&page[(at % PAGE) as usize..][..len]),
                None => buf.fill(0),
            }
        }
    }

    /// The bytes at `addr`, if they can all be read.
    pub fn peek(&self, addr: u64, buf: &mut [u8]) -> bool {
        let end = addr + buf.len() as u64;
        let refused = self.refused(addr, end, |protection| protection != Protection::None);
        self.copy(addr, end, buf);
        refused.is_none()
    }

    pub fn expect_read(&self, addr: u64, buf: &[u8], result: &Result<(), Error>) {
        let end = addr + buf.len() as u64;
        let refused = self.refused(addr, end, |protection| protection != Protection::None);
        let got = result
            .as_ref()
            .err()
            .map(|error| (error.addr().unwrap(), error.kind()));
        assert_eq!(got, refused);
        let mut expected = vec![0; buf.len()];
        self.copy(addr, refused.map_or(end, |(at, _)| at), &mut expected);
        assert!(expected == buf, "other bytes at {addr:#x}");
    }

    /// Checks that the space has these bytes, and no others.
    pub fn check(&self, space: &Space) {
        let mapped: Vec<u64> = space
            .areas()
            .iter()
            .flat_map(|area| pages(&area.range))
            .collect();
        assert!(
            mapped.iter().eq(self.mapped.keys()),
            "other pages are mapped"
        );
        let mut buf = vec![0; PAGE as usize];
        for (page, mapped) in &self.mapped {
            let result = space.read(page * PAGE, &mut buf);
            if mapped.protection == Protection::None {
                assert_eq!(result.unwrap_err().kind(), ErrorKind::Protected);
                continue;
            }
            result.unwrap();
            match self.bytes.get(page) {
                Some(bytes) => assert!(**bytes == buf, "page {page} is not what it was"),
                None => assert!(buf.iter().all(|b| *b == 0), "page {page} is not zeros"),
            }
        }
    }
}
