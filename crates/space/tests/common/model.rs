//! A space as plain bytes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use pagewell_frame::refcount::RefScheme;
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

impl Model {
    /// A page that is mapped, by a random number.
    pub fn nth_page(&self, random: u64) -> Option<u64> {
        // Pages that were written are the ones where something can go wrong.
        let nr_used = self.bytes.len() as u64;
        if nr_used > 0 && random % 4 != 0 {
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
            range.start % first == 0 && range.end % last == 0
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

    fn protection(&self, addr: u64) -> Option<Protection> {
        self.mapped
            .get(&(addr / PAGE))
            .map(|mapped| mapped.protection)
    }

    /// What is wrong with accessing `addr`.
    fn refusal(&self, addr: u64, is_allowed: impl Fn(Protection) -> bool) -> Option<ErrorKind> {
        match self.protection(addr) {
            None => Some(ErrorKind::Unmapped),
            Some(protection) if !is_allowed(protection) => Some(ErrorKind::Protected),
            Some(_) => None,
        }
    }

    /// Writes `bytes`, as far as `result` says that they were.
    pub fn write(&mut self, addr: u64, bytes: &[u8], result: &Result<(), Error>) {
        let mut end = addr + bytes.len() as u64;
        let refused = (addr..end).find_map(|at| {
            self.refusal(at, |protection| protection == Protection::ReadWrite)
                .map(|kind| (at, kind))
        });
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
        for at in addr..end {
            let page = self
                .bytes
                .entry(at / PAGE)
                .or_insert_with(|| Rc::new(vec![0; PAGE as usize]));
            Rc::make_mut(page)[(at % PAGE) as usize] = bytes[(at - addr) as usize];
        }
    }

    fn byte(&self, addr: u64) -> u8 {
        self.bytes
            .get(&(addr / PAGE))
            .map_or(0, |page| page[(addr % PAGE) as usize])
    }

    /// The bytes at `addr`, if they can all be read.
    pub fn peek(&self, addr: u64, buf: &mut [u8]) -> bool {
        for (at, byte) in (addr..).zip(buf) {
            if self
                .refusal(at, |protection| protection != Protection::None)
                .is_some()
            {
                return false;
            }
            *byte = self.byte(at);
        }
        true
    }

    pub fn expect_read(&self, addr: u64, buf: &[u8], result: &Result<(), Error>) {
        let end = addr + buf.len() as u64;
        let refused = (addr..end).find_map(|at| {
            self.refusal(at, |protection| protection != Protection::None)
                .map(|kind| (at, kind))
        });
        let got = result
            .as_ref()
            .err()
            .map(|error| (error.addr().unwrap(), error.kind()));
        assert_eq!(got, refused);
        let stopped = refused.map_or(end, |(at, _)| at);
        for (at, byte) in (addr..).zip(buf) {
            let expected = if at < stopped { self.byte(at) } else { 0 };
            assert_eq!(*byte, expected, "at {at:#x}");
        }
    }

    /// Checks that the space has these bytes, and no others.
    pub fn check<S: RefScheme>(&self, space: &Space<S>) {
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
