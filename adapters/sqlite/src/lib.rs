//! A VFS for SQLite on Pagewell: `vfs=pagewell`.
//!
//! All databases and connections of a process are in one page cache with one budget. SQLite gets pages where they are, pinned, and copies nothing; it reads and
//! writes through the cache otherwise. What a user of SQLite gets and loses is in the README; why it is built so, in `docs/adr/0039-*`.
//!
//! Two ways in: as an extension that SQLite loads ([`sqlite3_pagewellsqlite_init`]), and, with the feature `linked`, as a library
//! (`register`, in C `pagewell_sqlite_register`).
//!
//! | room | what |
//! |---|---|
//! | `abi` | SQLite's types and numbers |
//! | `host` | the functions of the SQLite that this is registered in |
//! | `error` | codes of SQLite by their cause |
//! | `options` | what a URI may say |
//! | `process` | which process this is |
//! | `locks` | SQLite's five states, in memory |
//! | `shm` | the index of a write-ahead log, in memory |
//! | `pins` | pages that were fetched |
//! | `databases` | what is open; the cache; the lock against other processes |
//! | `connection` | one connection's open database |
//! | `methods` | its methods, from C and back |
//! | `vfs` | the VFS itself |
//!
//! A room calls rooms above it in this table only.

#![deny(unsafe_code)] // Rooms that have some say so, and why.

#[doc(hidden)]
pub mod abi;
mod connection;
mod databases;
mod error;
#[allow(unsafe_code)] // Calls of C.
mod host;
mod locks;
mod methods;
mod options;
mod pins;
mod process;
mod shm;
mod vfs;

use std::ffi::{c_char, c_int, c_void};

/// What SQLite calls when it loads the extension: registers the VFS, which is not made the default. The extension stays loaded.
///
/// # Safety
///
/// As SQLite calls it: (R) `routines` is the table of an extension.
#[allow(unsafe_code)] // The boundary to C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_pagewellsqlite_init(
    _db: *mut abi::sqlite3,
    _error: *mut *mut c_char,
    routines: *const *const c_void,
) -> c_int {
    methods::guarded(|| {
        // A text for the error would have to be allocated by a SQLite that was not taken.
        // SAFETY: (R).
        if unsafe { host::take_routines(routines) }.is_err() {
            return Ok(abi::ERROR);
        }
        Ok(match vfs::register(false) {
            abi::OK => abi::OK_LOAD_PERMANENTLY,
            code => code,
        })
    })
}

/// Whether the VFS is that of databases that name none.
#[cfg(feature = "linked")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsDefault {
    /// Only databases that name it (`vfs=pagewell`) are opened by it.
    No,
    /// All are.
    Yes,
}

/// Registers the VFS in the SQLite that the program is linked with. It may be called again, to change whether it is the default.
///
/// # Errors
///
/// A code of SQLite: `SQLITE_ERROR` if that is older than 3.31, or if another SQLite of this process has loaded the extension.
#[cfg(feature = "linked")]
pub fn register(default: AsDefault) -> Result<(), c_int> {
    let code = methods::guarded(|| {
        if host::take_linked().is_err() {
            return Ok(abi::ERROR);
        }
        Ok(vfs::register(default == AsDefault::Yes))
    });
    match code {
        abi::OK => Ok(()),
        code => Err(code),
    }
}

/// In C: `int pagewell_sqlite_register(int is_default);`. As [`register`]; returns `SQLITE_OK` or another code.
#[cfg(feature = "linked")]
#[allow(unsafe_code)] // A symbol.
#[unsafe(no_mangle)]
pub extern "C" fn pagewell_sqlite_register(is_default: c_int) -> c_int {
    let default = match is_default {
        0 => AsDefault::No,
        _ => AsDefault::Yes,
    };
    register(default).err().unwrap_or(abi::OK)
}
