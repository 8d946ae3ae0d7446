//! Methods of an open database, which SQLite calls: conversions between C and [`Connection`].
//!
//! **Guarantees of SQLite** (its documentation of `sqlite3_io_methods`; each `unsafe` here names
//! those that it relies on): (F) the file was initialized by [`open`], and has not been closed; (T)
//! no two threads call methods of one file concurrently; (B) a buffer has the given size, and is
//! SQLite's own; (P) a pointer for a result is valid.
//!
//! A panic is a bug. It becomes `SQLITE_IOERR` here, and never unwinds into C.

#![allow(unsafe_code)] // The boundary to C.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use crate::abi::{self, sqlite3_file, sqlite3_io_methods};
use crate::connection::{Connection, WasRead};
use crate::error::Failure;
use crate::host::host;
use crate::locks::{Level, Locked};
use crate::shm::{Mapped, ShmLocked};

/// Memory that SQLite allocates for each open database.
#[repr(C)]
pub(crate) struct OpenFile {
    base: sqlite3_file,
    connection: *mut Connection,
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    version: 3,
    close,
    read,
    write,
    truncate,
    sync,
    file_size,
    lock,
    unlock,
    check_reserved_lock,
    file_control,
    sector_size,
    device_characteristics,
    shm_map,
    shm_lock,
    shm_barrier,
    shm_unmap,
    fetch,
    unfetch,
};

/// Initializes `file` with a connection, which `close` frees.
///
/// # Safety
///
/// (M) `file` has room for an [`OpenFile`], and SQLite passes it for initialization.
pub(crate) unsafe fn open(file: *mut sqlite3_file, connection: Connection) {
    let connection = Box::into_raw(Box::new(connection));
    let base = sqlite3_file {
        methods: &raw const METHODS,
    };
    // SAFETY: (M).
    unsafe { file.cast::<OpenFile>().write(OpenFile { base, connection }) };
}

/// # Safety
///
/// (F) and (T), while the reference is used.
#[inline(always)]
unsafe fn connection<'a>(file: *mut sqlite3_file) -> &'a mut Connection {
    // SAFETY: (F) `open` has initialized the file, and it was not closed.
    let connection = unsafe { (*file.cast::<OpenFile>()).connection };
    // SAFETY: (F) created by `open`; (T) no other thread uses it.
    unsafe { &mut *connection }
}

/// Runs the work of a method, and converts its result to a code.
#[inline(always)]
pub(crate) fn guarded(work: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    // A panic may leave the connection in an intermediate state, but SQLite then rolls back.
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(code)) => code,
        Ok(Err(failure)) => failure.tell(),
        Err(payload) => {
            // The drop of the payload may panic, too.
            std::mem::forget(payload);
            abi::IOERR
        }
    }
}

/// As [`guarded`], with the connection of `file`, in which it records the `errno` of a failure.
/// Fails in a child of the process that opened the connection.
///
/// # Safety
///
/// As for [`connection`].
#[inline(always)]
unsafe fn with(
    file: *mut sqlite3_file,
    work: impl FnOnce(&mut Connection) -> Result<c_int, Failure>,
) -> c_int {
    // SAFETY: the caller's obligations.
    let connection = unsafe { connection(file) };
    guarded(|| {
        connection.check_process()?;
        let result = work(connection);
        if let Err(failure) = &result {
            connection.errno = failure.errno;
        }
        result
    })
}

#[inline(always)]
fn unsigned(number: i64) -> Result<u64, Failure> {
    u64::try_from(number).map_err(|_| {
        Failure::new(
            abi::MISUSE,
            format!("cannot access the database: position or size {number} is negative"),
        )
    })
}

#[inline(always)]
fn length(number: c_int) -> Result<usize, Failure> {
    usize::try_from(number).map_err(|_| {
        Failure::new(
            abi::MISUSE,
            format!("cannot access the database: length or number {number} is negative"),
        )
    })
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    let open = file.cast::<OpenFile>();
    // SAFETY: (F).
    let connection = unsafe { (*open).connection };
    // SAFETY: (F). SQLite calls no method of a file without methods.
    unsafe { (*file).methods = std::ptr::null() };
    // SAFETY: `open` created it from a box, and no other reference exists.
    let connection = unsafe { Box::from_raw(connection) };
    guarded(|| connection.close().map(|()| abi::OK))
}

unsafe extern "C" fn read(
    file: *mut sqlite3_file,
    buf: *mut c_void,
    len: c_int,
    pos: i64,
) -> c_int {
    let work = |connection: &mut Connection| {
        let len = length(len)?;
        // SAFETY: (B). This code only writes to the buffer. SQLite may not have initialized it, but
        // the compiler cannot see the allocation, so it must assume that the bytes have a value.
        let buf = unsafe { std::slice::from_raw_parts_mut(buf.cast::<u8>(), len) };
        Ok(match connection.read(buf, unsigned(pos)?)? {
            WasRead::All => abi::OK,
            WasRead::Short => abi::IOERR_SHORT_READ,
        })
    };
    // SAFETY: (F) and (T).
    unsafe { with(file, work) }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    bytes: *const c_void,
    len: c_int,
    pos: i64,
) -> c_int {
    let work = |connection: &mut Connection| {
        let len = length(len)?;
        // SAFETY: (B), and SQLite does not change the buffer during the call.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), len) };
        connection.write(bytes, unsigned(pos)?).map(|()| abi::OK)
    };
    // SAFETY: (F) and (T).
    unsafe { with(file, work) }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: i64) -> c_int {
    let work = |connection: &mut Connection| connection.truncate(unsigned(size)?).map(|()| abi::OK);
    // SAFETY: (F) and (T).
    unsafe { with(file, work) }
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    let work = |connection: &mut Connection| connection.sync(flags).map(|()| abi::OK);
    // SAFETY: (F) and (T).
    unsafe { with(file, work) }
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, size: *mut i64) -> c_int {
    let work = |connection: &mut Connection| {
        let bytes = match connection.file().size() {
            // A file of one byte counts as empty, as in SQLite's VFS for Unix, which writes one
            // byte to an empty database on FAT file systems of macOS.
            1 => 0,
            bytes => bytes.cast_signed(),
        };
        // SAFETY: (P).
        unsafe { size.write(bytes) };
        Ok(abi::OK)
    };
    // SAFETY: (F) and (T).
    unsafe { with(file, work) }
}

fn level(number: c_int) -> Result<Level, Failure> {
    Level::of(number).ok_or_else(|| {
        Failure::new(
            abi::MISUSE,
            format!("cannot lock or unlock the database: unknown lock state {number}"),
        )
    })
}

unsafe extern "C" fn lock(file: *mut sqlite3_file, wanted: c_int) -> c_int {
    let work = |connection: &mut Connection| {
        let wanted = level(wanted)?;
        if wanted > Level::Shared && connection.database().is_read_only() {
            // This process has only a shared lock on the file. Other processes may have one, too.
            return Err(Failure::new(
                abi::IOERR_LOCK,
                format!(
                    "cannot lock {} for writing: this process may not write it",
                    connection.database().path.display()
                ),
            ));
        }
        Ok(match connection.raise(wanted) {
            Locked::Done => abi::OK,
            Locked::Busy => abi::BUSY,
        })
    };
    // SAFETY: (F) and (T).
    unsafe { with(file, work) }
}

unsafe extern "C" fn unlock(file: *mut sqlite3_file, wanted: c_int) -> c_int {
    let work = |connection: &mut Connection| {
        connection.lower(level(wanted)?);
        Ok(abi::OK)
    };
    // SAFETY: (F) and (T).
    unsafe { with(file, work) }
}

unsafe extern "C" fn check_reserved_lock(file: *mut sqlite3_file, answer: *mut c_int) -> c_int {
    let work = |connection: &mut Connection| {
        // SAFETY: (P).
        unsafe { answer.write(c_int::from(connection.is_reserved())) };
        Ok(abi::OK)
    };
    // SAFETY: (F) and (T).
    unsafe { with(file, work) }
}

unsafe extern "C" fn file_control(
    file: *mut sqlite3_file,
    op: c_int,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: (A) by (P): `argument` is as SQLite's documentation of the operation requires.
    let work = |connection: &mut Connection| unsafe { control(connection, op, argument) };
    // SAFETY: (F) and (T).
    unsafe { with(file, work) }
}

/// # Safety
///
/// (A) `argument` is as `op` requires.
unsafe fn control(
    connection: &mut Connection,
    op: c_int,
    argument: *mut c_void,
) -> Result<c_int, Failure> {
    let number = argument.cast::<c_int>();
    match op {
        abi::FCNTL_LOCKSTATE => {
            // SAFETY: (A) `argument` points to a place for a number.
            unsafe { number.write(connection.level().number()) };
        }
        abi::FCNTL_LAST_ERRNO => {
            // SAFETY: (A) `argument` points to a place for a number.
            unsafe { number.write(connection.errno) };
        }
        // The hints are ignored: writeback extends the file in large requests.
        abi::FCNTL_SIZE_HINT | abi::FCNTL_CHUNK_SIZE => {}
        abi::FCNTL_PERSIST_WAL => {
            // SAFETY: (A) a number: the new value or negative, and the place for the result.
            unsafe { flag(&mut connection.keeps_wal, number) };
        }
        abi::FCNTL_POWERSAFE_OVERWRITE => {
            // SAFETY: as above.
            unsafe { flag(&mut connection.is_power_safe, number) };
        }
        abi::FCNTL_VFSNAME => {
            // SAFETY: (A) `argument` points to a place for a string, which SQLite frees.
            unsafe {
                argument
                    .cast::<*mut c_char>()
                    .write(host().string("pagewell"))
            };
        }
        abi::FCNTL_MMAP_SIZE => {
            let place = argument.cast::<i64>();
            // SAFETY: (A) a number: the new value or negative, and the place for the result.
            let asked = unsafe { place.read() };
            // SAFETY: as above.
            unsafe { place.write(connection.mmap_size) };
            if asked >= 0 && connection.nr_fetched() == 0 {
                connection.mmap_size = asked;
            }
        }
        abi::FCNTL_HAS_MOVED => {
            // SAFETY: (A) `argument` points to a place for a number.
            unsafe { number.write(c_int::from(connection.has_moved())) };
        }
        // At the end of a transaction, before the journal is removed, even with `synchronous=OFF`.
        abi::FCNTL_SYNC => connection.flush()?,
        // At the end of a checkpoint, before SQLite restarts the log.
        abi::FCNTL_CKPT_DONE => connection.end_checkpoint()?,
        abi::FCNTL_EXTERNAL_READER => {
            // SAFETY: (A) `argument` points to a place for a number.
            unsafe { number.write(0) };
        }
        // SAFETY: (A) for this operation.
        abi::FCNTL_PRAGMA => return Ok(unsafe { pragma(connection, argument.cast()) }),
        _ => return Ok(abi::NOTFOUND),
    }
    Ok(abi::OK)
}

/// Performs SQLite's operation on a flag: if `*number` is negative, stores `flag` in `*number`, and
/// otherwise sets `flag` to whether `*number` is nonzero.
///
/// # Safety
///
/// (P) `number` is valid.
unsafe fn flag(flag: &mut bool, number: *mut c_int) {
    // SAFETY: (P).
    match unsafe { number.read() } {
        // SAFETY: (P).
        ..0 => unsafe { number.write(c_int::from(*flag)) },
        value => *flag = value != 0,
    }
}

/// Executes `PRAGMA pagewell_stats`, and leaves all other pragmas to SQLite.
///
/// # Safety
///
/// (A) `texts` is an array: a place for the result, the name of the pragma, and its argument.
unsafe fn pragma(connection: &Connection, texts: *mut *mut c_char) -> c_int {
    let name = texts.wrapping_add(1);
    // SAFETY: (A).
    let name = unsafe { name.read() };
    // SAFETY: (A) the name is a C string.
    let name = unsafe { CStr::from_ptr(name) };
    if !name.to_bytes().eq_ignore_ascii_case(b"pagewell_stats") {
        return abi::NOTFOUND;
    }
    let answer = host().string(&connection.statistics());
    // SAFETY: (A).
    unsafe { texts.write(answer) };
    abi::OK
}

/// Returns the page size of the cache: it writes whole pages, so a power loss during a write may
/// change any byte of the page. SQLite uses the result only if the URI has `psow=0`.
unsafe extern "C" fn sector_size(file: *mut sqlite3_file) -> c_int {
    // SAFETY: (F) and (T).
    let connection = unsafe { connection(file) };
    connection.file().page_size() as c_int
}

/// `ATOMIC`, `SAFE_APPEND`, `SEQUENTIAL` and `UNDELETABLE_WHEN_OPEN` are not claimed.
unsafe extern "C" fn device_characteristics(file: *mut sqlite3_file) -> c_int {
    // SAFETY: (F) and (T).
    let connection = unsafe { connection(file) };
    match connection.is_power_safe {
        true => abi::IOCAP_SUBPAGE_READ | abi::IOCAP_POWERSAFE_OVERWRITE,
        false => abi::IOCAP_SUBPAGE_READ,
    }
}

unsafe extern "C" fn shm_map(
    file: *mut sqlite3_file,
    nr: c_int,
    bytes: c_int,
    may_grow: c_int,
    answer: *mut *mut c_void,
) -> c_int {
    let work = |connection: &mut Connection| {
        connection.database().check_may_share_memory()?;
        let mapped = connection.shm_map(length(nr)?, length(bytes)?, may_grow != 0);
        let (start, code) = match mapped {
            Mapped::At(start) => (start.as_ptr(), abi::OK),
            Mapped::Missing => (std::ptr::null_mut(), abi::OK),
            Mapped::NoMemory => (std::ptr::null_mut(), abi::NOMEM),
        };
        // SAFETY: (P).
        unsafe { answer.write(start.cast()) };
        Ok(code)
    };
    // SAFETY: (F) and (T).
    unsafe { with(file, work) }
}

unsafe extern "C" fn shm_lock(
    file: *mut sqlite3_file,
    first: c_int,
    nr: c_int,
    flags: c_int,
) -> c_int {
    let work = |connection: &mut Connection| {
        let locked = connection.shm_lock(length(first)?, length(nr)?, flags)?;
        Ok(match locked {
            ShmLocked::Done => abi::OK,
            ShmLocked::Busy => abi::BUSY,
        })
    };
    // SAFETY: (F) and (T).
    unsafe { with(file, work) }
}

unsafe extern "C" fn shm_barrier(file: *mut sqlite3_file) {
    let work = |connection: &mut Connection| {
        connection.shm_barrier();
        Ok(abi::OK)
    };
    // SAFETY: (F) and (T).
    let _ = unsafe { with(file, work) };
}

unsafe extern "C" fn shm_unmap(file: *mut sqlite3_file, _delete: c_int) -> c_int {
    // There is no file to delete.
    let work = |connection: &mut Connection| {
        connection.shm_unmap();
        Ok(abi::OK)
    };
    // SAFETY: (F) and (T).
    unsafe { with(file, work) }
}

unsafe extern "C" fn fetch(
    file: *mut sqlite3_file,
    pos: i64,
    len: c_int,
    answer: *mut *mut c_void,
) -> c_int {
    let work = |connection: &mut Connection| {
        let fetched = connection.fetch(unsigned(pos)?, length(len)?);
        let start = fetched.map_or(std::ptr::null_mut(), NonNull::as_ptr);
        // SAFETY: (P). SQLite only reads the page. A read past its end accesses the next frame, or,
        // after the last frame, memory that is mapped, too.
        unsafe { answer.write(start.cast()) };
        Ok(abi::OK)
    };
    // SAFETY: (F) and (T).
    unsafe { with(file, work) }
}

unsafe extern "C" fn unfetch(file: *mut sqlite3_file, _pos: i64, page: *mut c_void) -> c_int {
    let work = |connection: &mut Connection| {
        // Null requests an unmap of the whole file, which this VFS does not map.
        if let Some(start) = NonNull::new(page.cast::<u8>()) {
            connection.give_back(start);
        }
        Ok(abi::OK)
    };
    // SAFETY: (F) and (T).
    unsafe { with(file, work) }
}
