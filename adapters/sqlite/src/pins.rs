//! Pages of a database that SQLite has fetched: pinned until it releases them.
//!
//! SQLite identifies a page that it releases by its address. It holds a few pages, those on the
//! paths of its cursors, and releases the latest first, so their list is searched from its end.

#![allow(unsafe_code)] // A borrow that the compiler cannot check.

use std::ptr::NonNull;

use pagewell::{File, PageGuard};

// SQLite may release a page in another thread than the one that fetched it. The compiler cannot
// check this, since C holds the connection.
const _: () = {
    const fn may_be_sent<T: Send>() {}
    may_be_sent::<PageGuard<'static>>();
    may_be_sent::<File>();
};

/// Handle of a file, with pins of its pages.
#[derive(Debug)]
pub(crate) struct Pins {
    /// Before the file, from which they borrow: fields are dropped in order.
    fetched: Vec<(NonNull<u8>, PageGuard<'static>)>,
    file: Box<File>,
    nr_all: u64,
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

    #[inline]
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Pins `page` and returns the address of its `len` bytes at `off`. Returns `None` if the page
    /// is shorter, or cannot be pinned.
    #[inline]
    pub(crate) fn fetch(&mut self, page: u64, off: usize, len: usize) -> Option<NonNull<u8>> {
        let guard = match self.file.try_pin(page) {
            Some(guard) => guard,
            None => {
                if page.wrapping_sub(self.last) == 1 {
                    // A scan. Sequential reads of missing pages trigger readahead, pins do not. If
                    // this fails, the pin fails too.
                    let at = page * self.file.page_size() as u64;
                    let _ = self.file.read_at(&mut [0; 8], at);
                }
                // On failure SQLite reads the bytes instead, which reports the error.
                self.file.pin(page).ok()?
            }
        };
        self.last = page;
        let bytes = guard.get(off..off.checked_add(len)?)?;
        let start = NonNull::from(bytes).cast::<u8>();
        // SAFETY: the guard borrows the file, which is in a box of this value that is dropped after
        // all guards; neither is moved out.
        let guard = unsafe { std::mem::transmute::<PageGuard<'_>, PageGuard<'static>>(guard) };
        self.fetched.push((start, guard));
        self.nr_all += 1;
        Some(start)
    }

    /// Unpins the page at this address. Returns `false` if none was fetched there.
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

    pub(crate) fn nr_all(&self) -> u64 {
        self.nr_all
    }

    /// Returns the number of pages that are currently fetched.
    pub(crate) fn nr_fetched(&self) -> usize {
        self.fetched.len()
    }
}
