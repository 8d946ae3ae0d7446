//! Hooks: functions of the program's that files call.
//!
//! - Owns: `pw_before_write`, `pw_outgoing_page` and the other types of hooks, `pw_release_user`.
//! - Calls: nothing of this crate.
//! - Promises: a hook's pointer is released once, when nobody can call the hook any more.

use std::ffi::{c_int, c_void};
use std::io;

use library::{OutgoingPage, PageHooks};

/// Is called before a page is given to the storage: ::pw_open_options_set_before_write.
///
/// `user`: what the program has given with it. `page`: the number of the page. `lsn`: the highest log sequence number that was written to it, 0 for none.
///
/// Returns: 0, or an `errno`: then the page is not written, and stays dirty.
///
/// It must return: no exception, `longjmp` or end of the thread may lead out of it.
#[allow(non_camel_case_types)]
pub type pw_before_write =
    Option<unsafe extern "C" fn(user: *mut c_void, page: u64, lsn: u64) -> c_int>;

/// A page on its way to the storage: ::pw_before_write_pages.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)]
pub struct pw_outgoing_page {
    /// All bytes of the page: a copy, which the hook may change, and all of which is stored.
    pub data: *mut c_void,
    /// How many there are: the size of a page.
    pub size: usize,
    /// How many of them are the file's: all of them, but for the last page of the file, whose other bytes are zeros.
    pub nr_used: usize,
    /// The number of the page.
    pub page: u64,
    /// The highest log sequence number that was written to it, 0 for none.
    pub lsn: u64,
}

/// Is called before pages are given to the storage, with their bytes: ::pw_open_options_set_page_hooks.
///
/// `user`: what the program has given with it. `pages`: `count` of them, neighbours in ascending order, which are about to be written in one request; only during the call.
///
/// A page with a byte that is not zero must be left with one, or the library refuses it: a stored page of zeros is one that nobody has written. The same page may go out
/// several times, in different versions, so one that was seen need not be stored.
///
/// Returns: 0, or an `errno`: then none of the pages is written, and each is tried again alone. One that is refused alone stays dirty, and who writes back gets ::PW_ERROR_REFUSED.
///
/// It must return: no exception, `longjmp` or end of the thread may lead out of it.
#[allow(non_camel_case_types)]
pub type pw_before_write_pages = Option<
    unsafe extern "C" fn(user: *mut c_void, pages: *const pw_outgoing_page, count: usize) -> c_int,
>;

/// Is called after a page was read from the storage, before anybody sees it: ::pw_open_options_set_page_hooks.
///
/// `user`: what the program has given with it. `page`: the number of the page. `data`: what the storage has, `size` bytes, all of the page; what the hook leaves there is what readers
/// get, as far as the file reaches.
///
/// Returns: 0, or an `errno`, `EBADMSG` say: then nobody sees the page, and who wanted it gets ::PW_ERROR_CORRUPT, with that in ::pw_last_errno. The next one has it read again.
///
/// It must return: no exception, `longjmp` or end of the thread may lead out of it.
#[allow(non_camel_case_types)]
pub type pw_after_read = Option<
    unsafe extern "C" fn(user: *mut c_void, page: u64, data: *mut c_void, size: usize) -> c_int,
>;

/// Is called of a page of which the storage has zeros only: ::pw_open_options_set_page_hooks.
///
/// `user`: what the program has given with it. `page`: the number of the page.
///
/// Returns: 0 if it is one that nobody has written, which reads as zeros; or an `errno`, as of ::pw_after_read.
///
/// It must return: no exception, `longjmp` or end of the thread may lead out of it.
#[allow(non_camel_case_types)]
pub type pw_hole = Option<unsafe extern "C" fn(user: *mut c_void, page: u64) -> c_int>;

/// Is called when the library does not use a pointer of the program's any more.
#[allow(non_camel_case_types)]
pub type pw_release_user = Option<unsafe extern "C" fn(user: *mut c_void)>;

/// A pointer that the program has given with a hook.
struct User {
    user: *mut c_void,
    release: pw_release_user,
}

// SAFETY: the header asks for functions that any thread may call, with this pointer.
unsafe impl Send for User {}
// SAFETY: as above, several threads at once.
unsafe impl Sync for User {}

impl Drop for User {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: the header asks for a function that may be called with this pointer; nobody calls the hook any more.
            unsafe { release(self.user) };
        }
    }
}

/// What a hook has returned.
fn answer(number: c_int) -> io::Result<()> {
    match number {
        0 => Ok(()),
        1..=4095 => Err(io::Error::from_raw_os_error(number)),
        other => Err(io::Error::other(format!("the hook has returned {other}"))),
    }
}

/// A hook on numbers.
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
        // SAFETY: the header asks for a function that may be called with this pointer until it was released, and that returns.
        answer(unsafe { (self.function)(self.user.user, page, lsn) })
    }
}

/// Hooks on bytes.
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
        // SAFETY: the header asks for a function that may be called with this pointer until it was released, and that returns. The bytes are this call's alone.
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
