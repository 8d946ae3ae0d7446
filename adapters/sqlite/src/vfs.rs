//! The VFS opens main databases. SQLite's VFS for Unix does the rest: paths, time, random numbers,
//! libraries, and all other files, such as journals and logs (`docs/adr/0039-*`).

#![allow(unsafe_code)] // The boundary to C.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::abi::{self, sqlite3, sqlite3_file, sqlite3_vfs};
use crate::connection::Connection;
use crate::databases;
use crate::descriptors::Wish;
use crate::error::Failure;
use crate::host::{Host, Registration, Vfs, host};
use crate::methods::{self, OpenFile, guarded};
use crate::options::{Options, PREFIX};

/// Registers the VFS with the host ([`crate::host`]), or changes whether it is the default.
pub(crate) fn register(host: &Host, is_default: bool) -> Registration {
    let unix = host.vfs(c"unix");
    if unix.is_null() {
        host.log(
            abi::ERROR,
            "cannot register vfs=pagewell: SQLite has no VFS `unix`",
        );
        return Registration::Failed(abi::ERROR);
    }
    let vfs = host.ours(|| {
        // SAFETY: SQLite has returned a registered VFS, which is permanent.
        let unix = unsafe { &mut *unix };
        Vfs(Box::into_raw(Box::new(sqlite3_vfs {
            version: 3,
            // SQLite allocates this for each file, including those that the Unix VFS opens.
            file_bytes: unix.file_bytes.max(size_of::<OpenFile>() as c_int),
            max_path: unix.max_path,
            next: std::ptr::null_mut(),
            name: c"pagewell".as_ptr(),
            app_data: std::ptr::from_mut(unix).cast(),
            open,
            delete,
            access,
            full_pathname,
            dl_open,
            dl_error,
            dl_sym,
            dl_close,
            randomness,
            sleep,
            current_time,
            get_last_error,
            current_time_int64,
            set_system_call,
            get_system_call,
            next_system_call,
        })))
    });
    // SAFETY: (V) the value is initialized as SQLite requires, and never freed.
    let code = unsafe { host.register(vfs, is_default) };
    if code != abi::OK {
        return Registration::Failed(code);
    }
    // Added at each call, since `sqlite3_shutdown` clears SQLite's list of automatic extensions.
    // SQLite adds no function to the list twice.
    Registration::Registered(host.for_each_connection(each_connection))
}

/// Called for each new connection. If the main database uses this VFS, sets its `mmap_size`: SQLite
/// fetches pages in place only up to this size. Without the schema name `main`, the pragma would
/// also apply to databases of any VFS that are attached later.
unsafe extern "C" fn each_connection(
    db: *mut sqlite3,
    _error: *mut *mut c_char,
    _routines: *const c_void,
) -> c_int {
    guarded(|| {
        let mut vfs: *mut sqlite3_vfs = std::ptr::null_mut();
        // SAFETY: (D) SQLite passes a new connection; (A) the operation stores a pointer to a VFS.
        let code = unsafe { host().control(db, abi::FCNTL_VFS_POINTER, (&raw mut vfs).cast()) };
        if code == abi::OK && host().is_ours(vfs) {
            // SAFETY: (D), as above. If this fails, SQLite copies pages.
            let _ = unsafe { host().run(db, c"PRAGMA main.mmap_size=9223372036854775807") };
        }
        Ok(abi::OK)
    })
}

/// # Safety
///
/// (V) `vfs` is the one that this module registered.
unsafe fn unix(vfs: *mut sqlite3_vfs) -> *mut sqlite3_vfs {
    // SAFETY: (V) the VFS is never freed, and its field does not change. The read creates no
    // reference to the VFS, because SQLite changes other fields, and other threads call it.
    unsafe { (*vfs).app_data.cast() }
}

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    if name.is_null() || flags & abi::OPEN_MAIN_DB == 0 {
        // SAFETY: (V) SQLite calls a VFS's functions with that VFS.
        let unix = unsafe { unix(vfs) };
        // SAFETY: (V) the VFS for Unix is permanent.
        let open = unsafe { (*unix).open };
        // SAFETY: SQLite has passed the arguments, and `file` has room for a file of that VFS.
        return unsafe { open(unix, name, file, flags, flags_out) };
    }
    // Null until the open has succeeded: otherwise SQLite calls `xClose` after a failed open.
    // SAFETY: `file` has room for a file of this VFS.
    unsafe { (*file).methods = std::ptr::null() };
    guarded(|| {
        // SAFETY: (N) SQLite passes the name of a main database.
        let connection = unsafe { open_database(name, flags) }?;
        if !flags_out.is_null() {
            let writes = abi::OPEN_READONLY | abi::OPEN_READWRITE | abi::OPEN_CREATE;
            let what = match connection.is_read_only {
                true => flags & !writes | abi::OPEN_READONLY,
                false => flags,
            };
            // SAFETY: SQLite has passed a valid place for the result.
            unsafe { flags_out.write(what) };
        }
        // SAFETY: (M) SQLite has allocated `file_bytes` for `file`.
        unsafe { methods::open(file, connection) };
        Ok(abi::OK)
    })
}

/// # Safety
///
/// (N) `name` is the name of a main database, as SQLite passes it to a VFS.
unsafe fn open_database(name: *const c_char, flags: c_int) -> Result<Connection, Failure> {
    // SAFETY: (N).
    let path = unsafe { CStr::from_ptr(name) };
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    let wrong = |why: String| {
        let text = format!("cannot open {}: {why}", path.display());
        Failure::new(abi::CANTOPEN, text)
    };
    let mut options = Options::default();
    let mut is_power_safe = true;
    let mut permissions = None;
    for nr in 0.. {
        // SAFETY: (N).
        let key = unsafe { host().parameter_name(name, nr) };
        if key.is_null() {
            break;
        }
        // SAFETY: SQLite returns a C string.
        let key = unsafe { CStr::from_ptr(key) };
        // SAFETY: (N); the value exists, since the key exists.
        let value = unsafe { host().parameter(name, key) };
        // SAFETY: as for the key.
        let bytes = unsafe { CStr::from_ptr(value) };
        let value = bytes.to_string_lossy();
        match key.to_string_lossy() {
            key if key.starts_with(PREFIX) => options.take(&key, &value).map_err(wrong)?,
            key if key == "psow" => {
                is_power_safe = !["0", "no", "off", "false"]
                    .iter()
                    .any(|no| value.eq_ignore_ascii_case(no));
            }
            // Names a file whose permissions a new database gets, as in SQLite's VFS for Unix.
            key if key == "modeof" => {
                let found = std::fs::metadata(OsStr::from_bytes(bytes.to_bytes()));
                let found = found.map_err(|error| {
                    let what = format!("cannot open {}: modeof={value}", path.display());
                    Failure::of_system(&error, abi::IOERR_FSTAT, &what)
                })?;
                permissions = Some(found.mode() & 0o777);
            }
            _ => {}
        }
    }
    if flags & abi::OPEN_NOFOLLOW != 0
        && std::fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
    {
        return Err(Failure::new(
            abi::CANTOPEN_SYMLINK,
            format!("cannot open {}: it is a symbolic link", path.display()),
        ));
    }
    let may_write = flags & abi::OPEN_READWRITE != 0;
    let database = databases::open(
        path,
        &Wish {
            may_create: may_write && flags & abi::OPEN_CREATE != 0,
            must_be_new: flags & abi::OPEN_EXCLUSIVE != 0,
            permissions,
            options,
        },
    )?;
    if flags & abi::OPEN_DELETEONCLOSE != 0 {
        // Errors are ignored, as in SQLite's VFS for Unix: the name may be missing already.
        let _ = std::fs::remove_file(path);
    }
    Ok(Connection::new(database, path, !may_write, is_power_safe))
}

/// Functions that call those of the VFS for Unix, with the same arguments except for the VFS.
macro_rules! passed_on {
    ($($name:ident($($argument:ident: $kind:ty),*) $(-> $answer:ty)?;)*) => {$(
        unsafe extern "C" fn $name(vfs: *mut sqlite3_vfs $(, $argument: $kind)*) $(-> $answer)? {
            // SAFETY: (V) SQLite calls a VFS's functions with that VFS.
            let unix = unsafe { unix(vfs) };
            // SAFETY: (V) the VFS for Unix is permanent.
            let function = unsafe { (*unix).$name };
            // SAFETY: the arguments are those that SQLite has passed.
            unsafe { function(unix $(, $argument)*) }
        }
    )*};
}

passed_on! {
    delete(name: *const c_char, syncs_directory: c_int) -> c_int;
    access(name: *const c_char, flags: c_int, answer: *mut c_int) -> c_int;
    full_pathname(name: *const c_char, room: c_int, answer: *mut c_char) -> c_int;
    dl_open(name: *const c_char) -> *mut c_void;
    dl_error(room: c_int, answer: *mut c_char);
    dl_sym(library: *mut c_void, name: *const c_char) -> Option<abi::Function>;
    dl_close(library: *mut c_void);
    randomness(room: c_int, answer: *mut c_char) -> c_int;
    sleep(microseconds: c_int) -> c_int;
    current_time(answer: *mut f64) -> c_int;
    get_last_error(room: c_int, answer: *mut c_char) -> c_int;
    current_time_int64(answer: *mut i64) -> c_int;
    set_system_call(name: *const c_char, function: Option<abi::Function>) -> c_int;
    get_system_call(name: *const c_char) -> Option<abi::Function>;
    next_system_call(name: *const c_char) -> *const c_char;
}
