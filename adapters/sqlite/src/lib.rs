//! VFS for SQLite on Pagewell: `vfs=pagewell`.
//!
//! All databases that a process opens by this VFS share one page cache with one budget. SQLite
//! reads pinned pages in place; other reads, and writes, copy from or to the cache. The README
//! describes benefits and limitations for users; `docs/adr/0039-*` explains the design decisions.
//!
//! The VFS is used as an extension that SQLite loads ([`sqlite3_pagewellsqlite_init`]), or, with
//! the feature `linked`, as a library (`register`, in C `pagewell_sqlite_register`).
//!
//! A module calls only modules before it in this list: `abi`, `host`, `error`, `options`,
//! `process`, `locks`, `shm`, `pins`, `registry`, `cache`, `fork`, `descriptors`, `databases`,
//! `connection`, `methods`, `vfs`.

#![deny(unsafe_code)] // Modules with unsafe code allow it, with the reason.

#[doc(hidden)]
pub mod abi;
mod cache;
mod connection;
mod databases;
mod descriptors;
mod error;
mod fork;
#[allow(unsafe_code)] // Calls to C.
mod host;
mod locks;
mod methods;
mod options;
mod pins;
mod process;
mod registry;
mod shm;
mod vfs;

use std::ffi::{c_char, c_int, c_void};

use crate::host::Registration;

/// Entry point of the extension: registers the VFS with the copy of SQLite that loads it, not as
/// the default. The extension stays loaded.
///
/// # Safety
///
/// The caller is SQLite: (R) `routines` is the table for an extension; (E) `error` is null or valid
/// for writes.
#[allow(unsafe_code)] // The boundary to C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_pagewellsqlite_init(
    _db: *mut abi::sqlite3,
    error: *mut *mut c_char,
    routines: *const *const c_void,
) -> c_int {
    methods::guarded(|| {
        let register = |host: &_| vfs::register(host, false);
        // SAFETY: (R) and (E).
        Ok(
            match unsafe { host::register_routines(routines, error, register) } {
                // Also if SQLite refused the automatic extension, and so copies pages: it has the
                // VFS, and unloads a library whose entry point returns another code.
                Ok(Registration::Registered(_)) => abi::OK_LOAD_PERMANENTLY,
                Ok(Registration::Failed(code)) => code,
                Err(_) => abi::ERROR,
            },
        )
    })
}

/// Whether SQLite uses the VFS for databases that name no VFS.
#[cfg(feature = "linked")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsDefault {
    /// SQLite uses the VFS only for databases that name it (`vfs=pagewell`).
    No,
    /// SQLite uses the VFS for all databases that name no other.
    Yes,
}

/// Registers the VFS with the copy of SQLite that the program is linked with. Later calls can
/// change whether it is the default.
///
/// # Errors
///
/// An error code of SQLite: `SQLITE_ERROR` if its version is older than 3.31, if it has no VFS
/// `unix`, or if this library was registered with another copy of SQLite before. Otherwise the code
/// of `sqlite3_vfs_register` or `sqlite3_auto_extension`.
#[cfg(feature = "linked")]
pub fn register(default: AsDefault) -> Result<(), c_int> {
    let code = methods::guarded(|| {
        let registered =
            host::register_linked(|host| vfs::register(host, default == AsDefault::Yes));
        Ok(registered.map_or(abi::ERROR, Registration::code))
    });
    match code {
        abi::OK => Ok(()),
        code => Err(code),
    }
}

/// C interface of [`register`]: `int pagewell_sqlite_register(int is_default);`. Returns
/// `SQLITE_OK` or an error code.
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
