//! Functions of the program that the library calls: the writeback callback and the page codec.
//!
//! - Owns: the C types of these functions, of their arguments, and of a `user` pointer's release.
//! - Calls: nothing of this crate.
//! - Promises: a `user` pointer is released once, when no thread can use it any more.

use std::ffi::{c_int, c_void};
use std::io;

use library::{OutgoingPage, PageHooks};

/// Writeback callback, called before a page is written to the backend:
/// ::pw_open_options_set_before_write.
///
/// `page`: page number. `lsn`: the highest log sequence number of a write to the page, 0 for none.
///
/// Returns: 0, or an `errno` to refuse the page, which is then not written and stays dirty.
#[allow(non_camel_case_types)]
pub type pw_before_write =
    Option<unsafe extern "C" fn(user: *mut c_void, page: u64, lsn: u64) -> c_int>;

/// Page that is about to be written to the backend: ::pw_before_write_pages.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)]
pub struct pw_outgoing_page {
    /// Copy of the page's bytes, which the codec may change. All of them are stored.
    pub data: *mut c_void,
    /// Number of bytes: the page size.
    pub size: usize,
    /// Number of bytes within the file: `size`, or fewer in the last page. The others are zeros.
    pub nr_used: usize,
    /// Number of the page.
    pub page: u64,
    /// Highest log sequence number of a write to the page, 0 for none.
    pub lsn: u64,
}

/// Encodes pages before they are written to the backend: ::pw_open_options_set_page_hooks.
///
/// `pages`: `count` consecutive pages in ascending order, which are about to be written in one
/// request; valid only during the call.
///
/// If a page has a nonzero byte, the encoded page must have one, too, or the library refuses the
/// page: a stored page of zeros means that the page was never written. A page may be passed several
/// times, with different bytes. A page that was passed is not always stored.
///
/// Returns: 0 to write the pages, or an `errno` to refuse them. If a request of several pages is
/// refused, none of them is written, and the library passes each page alone. A page that is refused
/// alone stays dirty, and the writeback fails with ::PW_ERROR_REFUSED.
#[allow(non_camel_case_types)]
pub type pw_before_write_pages = Option<
    unsafe extern "C" fn(user: *mut c_void, pages: *const pw_outgoing_page, count: usize) -> c_int,
>;

/// Decodes a page after it was read from the backend, before any reader sees it:
/// ::pw_open_options_set_page_hooks.
///
/// `page`: the number of the page. `data`: the `size` stored bytes of the whole page. Readers get
/// the bytes that the function leaves there, up to the end of the file.
///
/// Returns: 0, or an `errno` to refuse the page, for example `EBADMSG`. No reader sees a refused
/// page: the reader that needed it gets ::PW_ERROR_CORRUPT, with that number in ::pw_last_errno.
/// The next reader causes another read.
#[allow(non_camel_case_types)]
pub type pw_after_read = Option<
    unsafe extern "C" fn(user: *mut c_void, page: u64, data: *mut c_void, size: usize) -> c_int,
>;

/// Called for a page whose stored bytes are zeros: ::pw_open_options_set_page_hooks. Not called for
/// a page past the end of the stored file, which reads as zeros.
///
/// Returns: 0 if the page was never written: it then reads as zeros. Otherwise an `errno`, with the
/// consequences described at ::pw_after_read.
#[allow(non_camel_case_types)]
pub type pw_hole = Option<unsafe extern "C" fn(user: *mut c_void, page: u64) -> c_int>;

/// Called when the library no longer uses a pointer of the program.
#[allow(non_camel_case_types)]
pub type pw_release_user = Option<unsafe extern "C" fn(user: *mut c_void)>;

struct User {
    user: *mut c_void,
    release: pw_release_user,
}

// SAFETY: the header requires functions that any thread may call, with this pointer.
unsafe impl Send for User {}
// SAFETY: as above; several threads may call them at once.
unsafe impl Sync for User {}

impl Drop for User {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: the header requires a function that may be called with this pointer; no
            // thread calls the function that used it any more.
            unsafe { release(self.user) };
        }
    }
}

fn answer(number: c_int) -> io::Result<()> {
    match number {
        0 => Ok(()),
        1..=4095 => Err(io::Error::from_raw_os_error(number)),
        other => Err(io::Error::other(format!("the callback returned {other}"))),
    }
}

pub(crate) struct Hook {
    function: unsafe extern "C" fn(*mut c_void, u64, u64) -> c_int,
    user: User,
}

impl Hook {
    pub(crate) fn new(
        function: unsafe extern "C" fn(*mut c_void, u64, u64) -> c_int,
        user: *mut c_void,
        release: pw_release_user,
    ) -> Self {
        let user = User { user, release };
        Self { function, user }
    }

    pub(crate) fn call(&self, page: u64, lsn: u64) -> io::Result<()> {
        // SAFETY: the header requires a function that accepts this pointer until its release, and
        // returns.
        answer(unsafe { (self.function)(self.user.user, page, lsn) })
    }
}

pub(crate) struct HooksOnBytes {
    before_write: unsafe extern "C" fn(*mut c_void, *const pw_outgoing_page, usize) -> c_int,
    after_read: unsafe extern "C" fn(*mut c_void, u64, *mut c_void, usize) -> c_int,
    hole: pw_hole,
    user: User,
}

impl HooksOnBytes {
    pub(crate) fn new(
        before_write: unsafe extern "C" fn(*mut c_void, *const pw_outgoing_page, usize) -> c_int,
        after_read: unsafe extern "C" fn(*mut c_void, u64, *mut c_void, usize) -> c_int,
        hole: pw_hole,
        user: *mut c_void,
        release: pw_release_user,
    ) -> Self {
        let user = User { user, release };
        Self {
            before_write,
            after_read,
            hole,
            user,
        }
    }
}

impl PageHooks for HooksOnBytes {
    fn before_write(&self, pages: &mut [OutgoingPage<'_>]) -> io::Result<()> {
        let mut given = Vec::new();
        given
            .try_reserve_exact(pages.len())
            .map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))?;
        given.extend(pages.iter_mut().map(|page| pw_outgoing_page {
            size: page.bytes().len(),
            nr_used: page.nr_used(),
            page: page.page(),
            lsn: page.lsn(),
            data: page.bytes_mut().as_mut_ptr().cast(),
        }));
        // SAFETY: the header requires a function that accepts this pointer until its release, and
        // returns. Only this call accesses the bytes.
        answer(unsafe { (self.before_write)(self.user.user, given.as_ptr(), given.len()) })
    }

    fn after_read(&self, page: u64, bytes: &mut [u8]) -> io::Result<()> {
        let (data, size) = (bytes.as_mut_ptr().cast(), bytes.len());
        // SAFETY: as above.
        answer(unsafe { (self.after_read)(self.user.user, page, data, size) })
    }

    fn hole(&self, page: u64) -> io::Result<()> {
        match self.hole {
            // SAFETY: as above.
            Some(hole) => answer(unsafe { hole(self.user.user, page) }),
            None => Ok(()),
        }
    }
}
