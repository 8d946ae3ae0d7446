//! The pages of a database that SQLite has fetched: pinned, each until it is given back.
//!
//! SQLite names a page that it gives back by its address. It has a few at a time, those on the ways of its cursors, and gives the latest back first; so they are in a
//! list that is searched from its end.

#![allow(unsafe_code)] // A borrow that the compiler cannot see.

use std::ptr::NonNull;

use pagewell::{File, PageGuard};

// SQLite may give a page back in another thread than the one that has fetched it. The compiler does not see that, since C has the connection.
const _: () = {
    const fn may_be_sent<T: Send>() {}
    may_be_sent::<PageGuard<'static>>();
    may_be_sent::<File>();
};

/// A handle of a file, and pins of its pages.
#[derive(Debug)]
pub(crate) struct Pins {
    /// Before the file, which they borrow from: fields are dropped in their order.
    fetched: Vec<(NonNull<u8>, PageGuard<'static>)>,
    file: Box<File>,
    nr_all: u64,
    /// The page that was fetched last.
    last: u64,
}

impl Pins {
    pub(crate) fn new(file: File) -> Self {
        Self {
            fetched: Vec::with_capacity(32),
            file: Box::new(file),
            nr_all: 0,
            last: u64::MAX,
        }
    }

    /// The file.
    #[inline]
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Pins the page that has the bytes from `off` of it on, and returns where they are; none if the page has fewer than `len` from there on, or cannot be pinned.
    #[inline]
    pub(crate) fn fetch(&mut self, page: u64, off: usize, len: usize) -> Option<NonNull<u8>> {
        let guard = match self.file.try_pin(page) {
            Some(guard) => guard,
            None => {
                if page.wrapping_sub(self.last) == 1 {
                    // A scan. Reads of missing pages in order have the next ones read ahead; pins have not. If it fails, the pin does too.
                    let at = page * self.file.page_size() as u64;
                    let _ = self.file.read_at(&mut [0; 8], at);
                }
                // Who reads the bytes instead learns what is wrong.
                self.file.pin(page).ok()?
            }
        };
        self.last = page;
        let bytes = guard.get(off..off.checked_add(len)?)?;
        let start = NonNull::from(bytes).cast::<u8>();
        // SAFETY: the guard borrows the file, which is in a box that this value owns, and is dropped after all guards; neither is handed out by value.
        let guard = unsafe { std::mem::transmute::<PageGuard<'_>, PageGuard<'static>>(guard) };
        self.fetched.push((start, guard));
        self.nr_all += 1;
        Some(start)
    }

    /// Unpins a page that was fetched. False if no page was fetched at that address.
    #[inline]
    pub(crate) fn give_back(&mut self, start: NonNull<u8>) -> bool {
        match self.fetched.iter().rposition(|(at, _)| *at == start) {
            Some(nr) => {
                self.fetched.swap_remove(nr);
                true
            }
            None => false,
        }
    }

    /// How many pages were fetched so far.
    pub(crate) fn nr_all(&self) -> u64 {
        self.nr_all
    }

    /// How many pages are fetched.
    pub(crate) fn nr_fetched(&self) -> usize {
        self.fetched.len()
    }
}
