//! SQLite's types for a VFS and its open files, and constants, as SQLite's headers declare them.
//!
//! These types are declared here, since a crate of bindings brings or requires its own copy of
//! SQLite, but an extension uses the copy that loads it. The test `abi` compares layouts and most
//! constants with `libsqlite3-sys`.

#![allow(missing_docs, non_camel_case_types)] // As in SQLite's headers, which document them.

use std::ffi::{c_char, c_int, c_void};

/// `sqlite3_file`: first field of a VFS's data for each open file.
#[repr(C)]
pub struct sqlite3_file {
    pub methods: *const sqlite3_io_methods,
}

/// `sqlite3_io_methods`, version 3.
#[repr(C)]
pub struct sqlite3_io_methods {
    pub version: c_int,
    pub close: unsafe extern "C" fn(*mut sqlite3_file) -> c_int,
    pub read: unsafe extern "C" fn(*mut sqlite3_file, *mut c_void, c_int, i64) -> c_int,
    pub write: unsafe extern "C" fn(*mut sqlite3_file, *const c_void, c_int, i64) -> c_int,
    pub truncate: unsafe extern "C" fn(*mut sqlite3_file, i64) -> c_int,
    pub sync: unsafe extern "C" fn(*mut sqlite3_file, c_int) -> c_int,
    pub file_size: unsafe extern "C" fn(*mut sqlite3_file, *mut i64) -> c_int,
    pub lock: unsafe extern "C" fn(*mut sqlite3_file, c_int) -> c_int,
    pub unlock: unsafe extern "C" fn(*mut sqlite3_file, c_int) -> c_int,
    pub check_reserved_lock: unsafe extern "C" fn(*mut sqlite3_file, *mut c_int) -> c_int,
    pub file_control: unsafe extern "C" fn(*mut sqlite3_file, c_int, *mut c_void) -> c_int,
    pub sector_size: unsafe extern "C" fn(*mut sqlite3_file) -> c_int,
    pub device_characteristics: unsafe extern "C" fn(*mut sqlite3_file) -> c_int,
    pub shm_map:
        unsafe extern "C" fn(*mut sqlite3_file, c_int, c_int, c_int, *mut *mut c_void) -> c_int,
    pub shm_lock: unsafe extern "C" fn(*mut sqlite3_file, c_int, c_int, c_int) -> c_int,
    pub shm_barrier: unsafe extern "C" fn(*mut sqlite3_file),
    pub shm_unmap: unsafe extern "C" fn(*mut sqlite3_file, c_int) -> c_int,
    pub fetch: unsafe extern "C" fn(*mut sqlite3_file, i64, c_int, *mut *mut c_void) -> c_int,
    pub unfetch: unsafe extern "C" fn(*mut sqlite3_file, i64, *mut c_void) -> c_int,
}

/// Type of functions that this crate passes on and does not call.
pub type Function = unsafe extern "C" fn();

/// `sqlite3_vfs`, version 3.
#[repr(C)]
pub struct sqlite3_vfs {
    pub version: c_int,
    pub file_bytes: c_int,
    pub max_path: c_int,
    pub next: *mut sqlite3_vfs,
    pub name: *const c_char,
    pub app_data: *mut c_void,
    pub open: unsafe extern "C" fn(
        *mut sqlite3_vfs,
        *const c_char,
        *mut sqlite3_file,
        c_int,
        *mut c_int,
    ) -> c_int,
    pub delete: unsafe extern "C" fn(*mut sqlite3_vfs, *const c_char, c_int) -> c_int,
    pub access: unsafe extern "C" fn(*mut sqlite3_vfs, *const c_char, c_int, *mut c_int) -> c_int,
    pub full_pathname:
        unsafe extern "C" fn(*mut sqlite3_vfs, *const c_char, c_int, *mut c_char) -> c_int,
    pub dl_open: unsafe extern "C" fn(*mut sqlite3_vfs, *const c_char) -> *mut c_void,
    pub dl_error: unsafe extern "C" fn(*mut sqlite3_vfs, c_int, *mut c_char),
    pub dl_sym:
        unsafe extern "C" fn(*mut sqlite3_vfs, *mut c_void, *const c_char) -> Option<Function>,
    pub dl_close: unsafe extern "C" fn(*mut sqlite3_vfs, *mut c_void),
    pub randomness: unsafe extern "C" fn(*mut sqlite3_vfs, c_int, *mut c_char) -> c_int,
    pub sleep: unsafe extern "C" fn(*mut sqlite3_vfs, c_int) -> c_int,
    pub current_time: unsafe extern "C" fn(*mut sqlite3_vfs, *mut f64) -> c_int,
    pub get_last_error: unsafe extern "C" fn(*mut sqlite3_vfs, c_int, *mut c_char) -> c_int,
    pub current_time_int64: unsafe extern "C" fn(*mut sqlite3_vfs, *mut i64) -> c_int,
    pub set_system_call:
        unsafe extern "C" fn(*mut sqlite3_vfs, *const c_char, Option<Function>) -> c_int,
    pub get_system_call: unsafe extern "C" fn(*mut sqlite3_vfs, *const c_char) -> Option<Function>,
    pub next_system_call: unsafe extern "C" fn(*mut sqlite3_vfs, *const c_char) -> *const c_char,
}

/// Connection, `sqlite3`: an opaque type.
#[repr(C)]
pub struct sqlite3 {
    _private: [u8; 0],
}

pub const OK: c_int = 0;
pub const ERROR: c_int = 1;
pub const BUSY: c_int = 5;
pub const NOMEM: c_int = 7;
pub const READONLY: c_int = 8;
pub const IOERR: c_int = 10;
pub const NOTFOUND: c_int = 12;
pub const FULL: c_int = 13;
pub const CANTOPEN: c_int = 14;
pub const MISUSE: c_int = 21;
pub const OK_LOAD_PERMANENTLY: c_int = OK | (1 << 8);
pub const CANTOPEN_SYMLINK: c_int = CANTOPEN | (6 << 8);
pub const IOERR_READ: c_int = IOERR | (1 << 8);
pub const IOERR_SHORT_READ: c_int = IOERR | (2 << 8);
pub const IOERR_WRITE: c_int = IOERR | (3 << 8);
pub const IOERR_FSYNC: c_int = IOERR | (4 << 8);
pub const IOERR_TRUNCATE: c_int = IOERR | (6 << 8);
pub const IOERR_FSTAT: c_int = IOERR | (7 << 8);
pub const IOERR_NOMEM: c_int = IOERR | (12 << 8);
pub const IOERR_LOCK: c_int = IOERR | (15 << 8);
pub const IOERR_CLOSE: c_int = IOERR | (16 << 8);
pub const IOERR_SHMMAP: c_int = IOERR | (21 << 8);
pub const IOERR_CORRUPTFS: c_int = IOERR | (33 << 8);

pub const OPEN_READONLY: c_int = 0x0000_0001;
pub const OPEN_READWRITE: c_int = 0x0000_0002;
pub const OPEN_CREATE: c_int = 0x0000_0004;
pub const OPEN_DELETEONCLOSE: c_int = 0x0000_0008;
pub const OPEN_EXCLUSIVE: c_int = 0x0000_0010;
pub const OPEN_MAIN_DB: c_int = 0x0000_0100;
pub const OPEN_NOFOLLOW: c_int = 0x0100_0000;

pub const LOCK_NONE: c_int = 0;
pub const LOCK_SHARED: c_int = 1;
pub const LOCK_RESERVED: c_int = 2;
pub const LOCK_PENDING: c_int = 3;
pub const LOCK_EXCLUSIVE: c_int = 4;

pub const SYNC_DATAONLY: c_int = 0x10;

pub const SHM_UNLOCK: c_int = 1;
pub const SHM_LOCK: c_int = 2;
pub const SHM_SHARED: c_int = 4;
pub const SHM_EXCLUSIVE: c_int = 8;
pub const SHM_NLOCK: usize = 8;

pub const IOCAP_POWERSAFE_OVERWRITE: c_int = 0x0000_1000;
pub const IOCAP_SUBPAGE_READ: c_int = 0x0000_8000;

pub const FCNTL_LOCKSTATE: c_int = 1;
pub const FCNTL_LAST_ERRNO: c_int = 4;
pub const FCNTL_SIZE_HINT: c_int = 5;
pub const FCNTL_CHUNK_SIZE: c_int = 6;
pub const FCNTL_PERSIST_WAL: c_int = 10;
pub const FCNTL_VFSNAME: c_int = 12;
pub const FCNTL_POWERSAFE_OVERWRITE: c_int = 13;
pub const FCNTL_PRAGMA: c_int = 14;
pub const FCNTL_MMAP_SIZE: c_int = 18;
pub const FCNTL_HAS_MOVED: c_int = 20;
pub const FCNTL_SYNC: c_int = 21;
pub const FCNTL_VFS_POINTER: c_int = 27;
pub const FCNTL_CKPT_DONE: c_int = 37;
pub const FCNTL_EXTERNAL_READER: c_int = 40;

/// Position and number of the bytes that SQLite's VFS for Unix locks in a database file: one for
/// the lock state PENDING, then one for RESERVED and 510 for SHARED.
pub const LOCKED_FIRST: i64 = 0x4000_0000;
pub const NR_LOCKED: i64 = 512;
