//! Pages of a database that SQLite has fetched: pinned until it releases them.
//!
//! SQLite releases a page by its address. It has few pages fetched at a time, those on the paths of
//! its cursors, and usually releases the last one first, so the list is searched from its end.

#![allow(unsafe_code)] // A borrow that the compiler cannot check.

use std::ptr::NonNull;

use pagewell::{File, PageGuard};

// SQLite may release a page in another thread than the one that fetched it. C code passes
// connections between threads, so the compiler checks `Send` only here.
const _: () = {
    const fn may_be_sent<T: Send>() {}
    may_be_sent::<PageGuard<'static>>();
    may_be_sent::<File>();
};

/// Handle of a file, with pins of its pages.
#[derive(Debug)]
pub(crate) struct Pins {
    /// Declared before the file, from which the guards borrow: fields are dropped in this order.
    fetched: Vec<(NonNull<u8>, PageGuard<'static>)>,
    file: Box<File>,
    /// Number of successful fetches.
    nr_all: u64,
    /// Number of the page that was pinned last, or `u64::MAX`.
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
    /// ends before the last of them, or cannot be pinned.
    #[inline]
    pub(crate) fn fetch(&mut self, page: u64, off: usize, len: usize) -> Option<NonNull<u8>> {
        let guard = match self.file.try_pin(page) {
            Some(guard) => guard,
            None => {
                if page.wrapping_sub(self.last) == 1 {
                    // The page follows the last one, as in a scan. A read, unlike a pin, triggers
                    // readahead. An error of the read is ignored, since the pin tries again.
                    let at = page * self.file.page_size() as u64;
                    let _ = self.file.read_at(&mut [0; 8], at);
                }
                // If the pin fails, SQLite reads the bytes instead, and gets the error.
                self.file.pin(page).ok()?
            }
        };
        self.last = page;
        let bytes = guard.get(off..off.checked_add(len)?)?;
        let start = NonNull::from(bytes).cast::<u8>();
        // SAFETY: the guard borrows from the file. The file is in a box of this value, which is
        // dropped after all guards, and neither the file nor a guard is moved out of this value.
        let guard = unsafe { std::mem::transmute::<PageGuard<'_>, PageGuard<'static>>(guard) };
        self.fetched.push((start, guard));
        self.nr_all += 1;
        Some(start)
    }

    /// Unpins the page whose fetch returned `start`. Returns `false` if there is none.
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

    pub(crate) fn nr_fetched(&self) -> usize {
        self.fetched.len()
    }
}
