//! The *host*: the copy of SQLite in which this VFS is registered, and its functions.
//!
//! SQLite passes its functions to an extension in a table (`sqlite3_api_routines`, which only grows
//! at its end). With the feature `linked` they are symbols. The first copy of SQLite that registers
//! the VFS is the host. Any other copy has its own list of VFSs and allocator, and is refused.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::abi::{sqlite3, sqlite3_vfs};

type Exec = unsafe extern "C" fn(
    *mut sqlite3,
    *const c_char,
    *const c_void,
    *mut c_void,
    *mut *mut c_char,
) -> c_int;
type Log = unsafe extern "C" fn(c_int, *const c_char, ...);
type FileControl = unsafe extern "C" fn(*mut sqlite3, *const c_char, c_int, *mut c_void) -> c_int;

/// Automatic extension: function that SQLite calls for each new connection.
pub(crate) type AutoExtension =
    unsafe extern "C" fn(*mut sqlite3, *mut *mut c_char, *const c_void) -> c_int;

pub(crate) struct Host {
    /// The VFS, once it was created for this host.
    ours: OnceLock<Vfs>,
    exec: Exec,
    file_control: FileControl,
    log: Log,
    malloc: Malloc,
    uri_parameter: unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char,
    uri_key: unsafe extern "C" fn(*const c_char, c_int) -> *const c_char,
    vfs_find: unsafe extern "C" fn(*const c_char) -> *mut sqlite3_vfs,
    vfs_register: unsafe extern "C" fn(*mut sqlite3_vfs, c_int) -> c_int,
    auto_extension: unsafe extern "C" fn(AutoExtension) -> c_int,
}

/// Oldest version of SQLite that has all functions: 3.31, of January 2020.
const OLDEST: c_int = 3_031_000;

/// The host, or null. Set before the registration, since SQLite may call the VFS from then on, and
/// cleared if the registration fails. While it is set, other copies are refused. A host is never
/// freed.
static HOST: AtomicPtr<Host> = AtomicPtr::new(ptr::null_mut());

/// Not locked during calls to SQLite, whose initialization may register the VFS.
static REGISTRATIONS: Mutex<Registrations> = Mutex::new(Registrations {
    nr_in_progress: 0,
    has_succeeded: false,
});

struct Registrations {
    nr_in_progress: usize,
    has_succeeded: bool,
}

/// Address of the VFS, which lives as long as the process.
pub(crate) struct Vfs(pub(crate) *mut sqlite3_vfs);

// SAFETY: SQLite's own lock guards the field that changes (`next`); the others are constant.
unsafe impl Send for Vfs {}
// SAFETY: as above.
unsafe impl Sync for Vfs {}

/// Result of a registration: a code of SQLite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Registration {
    /// SQLite may call the VFS, even if the code is that of a later error.
    Registered(c_int),
    /// This registration failed. An earlier one may have succeeded.
    Failed(c_int),
}

impl Registration {
    #[cfg(feature = "linked")]
    pub(crate) fn code(self) -> c_int {
        match self {
            Self::Registered(code) | Self::Failed(code) => code,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The version is older than [`OLDEST`].
    Old,
    /// The VFS was registered with another copy of SQLite before.
    Another,
}

impl Refusal {
    fn text(self) -> &'static str {
        match self {
            Self::Old => "pagewell needs SQLite 3.31 or later",
            Self::Another => {
                "another SQLite library of this process has loaded pagewell; it serves one of them"
            }
        }
    }
}

type Malloc = unsafe extern "C" fn(u64) -> *mut c_void;

/// First version that has [`slot::MALLOC64`]: 3.8.7, of October 2014.
const FIRST_WITH_MALLOC64: c_int = 3_008_007;

/// Copies `text` to memory of `malloc`. Returns null if no memory is available.
fn copied(text: &str, malloc: Malloc) -> *mut c_char {
    // SAFETY: `malloc` accepts any size.
    let memory = unsafe { malloc(text.len() as u64 + 1) }.cast::<u8>();
    if !memory.is_null() {
        // SAFETY: new memory of the text's length plus one byte.
        unsafe { memory.copy_from_nonoverlapping(text.as_ptr(), text.len()) };
        let end = memory.wrapping_add(text.len());
        // SAFETY: the address is that of the additional byte.
        unsafe { end.write(0) };
    }
    memory.cast()
}

/// Indices in the table for extensions, which is an array of pointers.
mod slot {
    pub(super) const EXEC: usize = 55;
    pub(super) const LIBVERSION_NUMBER: usize = 67;
    pub(super) const FILE_CONTROL: usize = 127;
    pub(super) const VFS_FIND: usize = 141;
    pub(super) const VFS_REGISTER: usize = 142;
    pub(super) const LOG: usize = 167;
    pub(super) const URI_PARAMETER: usize = 189;
    pub(super) const AUTO_EXTENSION: usize = 192;
    pub(super) const MALLOC64: usize = 197;
    pub(super) const URI_KEY: usize = 245;
}

/// # Safety
///
/// (T) `routines` is the table that SQLite passes to an extension, and has the slot `slot`. (F) The
/// slot contains a pointer to a function of type `F`.
unsafe fn function<F: Copy>(routines: *const *const c_void, slot: usize) -> F {
    const { assert!(size_of::<F>() == size_of::<*const c_void>()) };
    let at = routines.wrapping_add(slot);
    // SAFETY: (T) the slot is in the table; (F) it contains a pointer to a function of that type.
    unsafe { at.cast::<F>().read() }
}

/// Makes the copy of SQLite that passed this table the host, and calls `register`. If the copy is
/// refused, stores the reason in `error` as a text that SQLite frees. Stores nothing if `error` is
/// null or the copy is older than [`FIRST_WITH_MALLOC64`].
///
/// # Safety
///
/// (R) `routines` is a table that SQLite passes to an extension, or null. (E) `error` is null, or
/// valid for writes.
pub(crate) unsafe fn register_routines(
    routines: *const *const c_void,
    error: *mut *mut c_char,
    register: impl FnOnce(&'static Host) -> Registration,
) -> Result<Registration, Refusal> {
    if routines.is_null() {
        return Err(Refusal::Old);
    }
    // SAFETY: (T) and (F) by (R): the table of each version has this slot.
    let version: unsafe extern "C" fn() -> c_int =
        unsafe { function(routines, slot::LIBVERSION_NUMBER) };
    // SAFETY: the function takes no arguments.
    let version = unsafe { version() };
    let registered = if version < OLDEST {
        Err(Refusal::Old)
    } else {
        // SAFETY: (R), and the version.
        register_in(unsafe { host_of(routines) }, register)
    };
    if let Err(refusal) = registered
        && version >= FIRST_WITH_MALLOC64
        && !error.is_null()
    {
        // SAFETY: (T) and (F) by (R): the table of this version has this slot.
        let malloc: Malloc = unsafe { function(routines, slot::MALLOC64) };
        // SAFETY: (E).
        unsafe { error.write(copied(refusal.text(), malloc)) };
    }
    registered
}

/// # Safety
///
/// (R) `routines` is the table of a SQLite of version `OLDEST` or later.
unsafe fn host_of(routines: *const *const c_void) -> Host {
    Host {
        ours: OnceLock::new(),
        // SAFETY: (T) and (F) by (R): from `OLDEST` on, the table has all these functions.
        exec: unsafe { function(routines, slot::EXEC) },
        // SAFETY: as above.
        file_control: unsafe { function(routines, slot::FILE_CONTROL) },
        // SAFETY: as above.
        log: unsafe { function(routines, slot::LOG) },
        // SAFETY: as above.
        malloc: unsafe { function(routines, slot::MALLOC64) },
        // SAFETY: as above.
        uri_parameter: unsafe { function(routines, slot::URI_PARAMETER) },
        // SAFETY: as above.
        uri_key: unsafe { function(routines, slot::URI_KEY) },
        // SAFETY: as above.
        vfs_find: unsafe { function(routines, slot::VFS_FIND) },
        // SAFETY: as above.
        vfs_register: unsafe { function(routines, slot::VFS_REGISTER) },
        // SAFETY: as above.
        auto_extension: unsafe { function(routines, slot::AUTO_EXTENSION) },
    }
}

/// As [`register_routines`], for the copy of SQLite that is linked to the program.
#[cfg(feature = "linked")]
pub(crate) fn register_linked(
    register: impl FnOnce(&'static Host) -> Registration,
) -> Result<Registration, Refusal> {
    mod linked {
        use super::*;
        // SAFETY: declared as in SQLite's header.
        unsafe extern "C" {
            pub(super) fn sqlite3_exec(
                db: *mut sqlite3,
                sql: *const c_char,
                callback: *const c_void,
                argument: *mut c_void,
                error: *mut *mut c_char,
            ) -> c_int;
            pub(super) fn sqlite3_file_control(
                db: *mut sqlite3,
                name: *const c_char,
                op: c_int,
                argument: *mut c_void,
            ) -> c_int;
            pub(super) fn sqlite3_libversion_number() -> c_int;
            pub(super) fn sqlite3_log(code: c_int, format: *const c_char, ...);
            pub(super) fn sqlite3_malloc64(bytes: u64) -> *mut c_void;
            pub(super) fn sqlite3_uri_parameter(
                name: *const c_char,
                key: *const c_char,
            ) -> *const c_char;
            pub(super) fn sqlite3_uri_key(name: *const c_char, nr: c_int) -> *const c_char;
            pub(super) fn sqlite3_vfs_find(name: *const c_char) -> *mut sqlite3_vfs;
            pub(super) fn sqlite3_vfs_register(vfs: *mut sqlite3_vfs, default: c_int) -> c_int;
            pub(super) fn sqlite3_auto_extension(extension: AutoExtension) -> c_int;
        }
    }
    // SAFETY: the function takes no arguments.
    if unsafe { linked::sqlite3_libversion_number() } < OLDEST {
        return Err(Refusal::Old);
    }
    let host = Host {
        ours: OnceLock::new(),
        exec: linked::sqlite3_exec,
        file_control: linked::sqlite3_file_control,
        log: linked::sqlite3_log,
        malloc: linked::sqlite3_malloc64,
        uri_parameter: linked::sqlite3_uri_parameter,
        uri_key: linked::sqlite3_uri_key,
        vfs_find: linked::sqlite3_vfs_find,
        vfs_register: linked::sqlite3_vfs_register,
        auto_extension: linked::sqlite3_auto_extension,
    };
    register_in(host, register)
}

fn register_in(
    host: Host,
    register: impl FnOnce(&'static Host) -> Registration,
) -> Result<Registration, Refusal> {
    let mut registrations = registrations();
    let host = match kept() {
        Some(kept) if kept.vfs_find as usize == host.vfs_find as usize => kept,
        Some(_) => return Err(Refusal::Another),
        None => {
            // Leaked once for each failed first registration.
            let host = &*Box::leak(Box::new(host));
            // ORDERING: Release; pairs with the Acquire of `kept`.
            HOST.store(ptr::from_ref(host).cast_mut(), Ordering::Release);
            host
        }
    };
    registrations.nr_in_progress += 1;
    drop(registrations);
    let _in_progress = InProgress;
    let registration = register(host);
    if let Registration::Registered(_) = registration {
        self::registrations().has_succeeded = true;
    }
    Ok(registration)
}

fn registrations() -> MutexGuard<'static, Registrations> {
    REGISTRATIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registration in progress. The drop of the last one clears the host if none has succeeded.
struct InProgress;

impl Drop for InProgress {
    fn drop(&mut self) {
        let mut registrations = registrations();
        registrations.nr_in_progress -= 1;
        if !registrations.has_succeeded && registrations.nr_in_progress == 0 {
            // ORDERING: Relaxed; a null pointer publishes nothing.
            HOST.store(ptr::null_mut(), Ordering::Relaxed);
        }
    }
}

fn kept() -> Option<&'static Host> {
    // ORDERING: Acquire; pairs with the Release of `register_in`.
    let host = HOST.load(Ordering::Acquire);
    // SAFETY: null, or a host that is never freed, and is accessed by shared references alone.
    unsafe { host.as_ref() }
}

/// Returns the host, which is set before the VFS is registered.
pub(crate) fn host() -> &'static Host {
    kept().expect("registered in a SQLite")
}

impl Host {
    /// Returns the VFS of this host, which `make` creates at the first call.
    pub(crate) fn ours(&self, make: impl FnOnce() -> Vfs) -> *mut sqlite3_vfs {
        self.ours.get_or_init(make).0
    }

    pub(crate) fn is_ours(&self, vfs: *mut sqlite3_vfs) -> bool {
        self.ours.get().is_some_and(|ours| ptr::eq(ours.0, vfs))
    }

    /// Writes a line to SQLite's log, if the program has set one (`SQLITE_CONFIG_LOG`).
    pub(crate) fn log(&self, code: c_int, text: &str) {
        let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
        // SAFETY: the format takes one string.
        unsafe { (self.log)(code, c"pagewell: %s".as_ptr(), text.as_ptr()) };
    }

    /// Copies `text` to memory that SQLite frees. Returns null if no memory is available.
    pub(crate) fn string(&self, text: &str) -> *mut c_char {
        copied(text, self.malloc)
    }

    pub(crate) fn vfs(&self, name: &std::ffi::CStr) -> *mut sqlite3_vfs {
        // SAFETY: the argument is a C string.
        unsafe { (self.vfs_find)(name.as_ptr()) }
    }

    /// # Safety
    ///
    /// (V) `vfs` is as SQLite's documentation requires, and lives as long as the process.
    pub(crate) unsafe fn register(&self, vfs: *mut sqlite3_vfs, is_default: bool) -> c_int {
        // SAFETY: (V).
        unsafe { (self.vfs_register)(vfs, c_int::from(is_default)) }
    }

    pub(crate) fn for_each_connection(&self, extension: AutoExtension) -> c_int {
        // SAFETY: the function has the type of an extension, and is never unloaded.
        unsafe { (self.auto_extension)(extension) }
    }

    /// Returns null if the URI has no such parameter.
    ///
    /// # Safety
    ///
    /// (N) `name` is the name of a main database that SQLite has passed to `xOpen`.
    pub(crate) unsafe fn parameter(
        &self,
        name: *const c_char,
        key: &std::ffi::CStr,
    ) -> *const c_char {
        // SAFETY: (N); the key is a C string.
        unsafe { (self.uri_parameter)(name, key.as_ptr()) }
    }

    /// Returns the name of a parameter of a URI by its number, or null after the last one.
    ///
    /// # Safety
    ///
    /// (N) As for [`parameter`](Self::parameter).
    pub(crate) unsafe fn parameter_name(&self, name: *const c_char, nr: c_int) -> *const c_char {
        // SAFETY: (N).
        unsafe { (self.uri_key)(name, nr) }
    }

    /// Calls `sqlite3_file_control` for the main database.
    ///
    /// # Safety
    ///
    /// (D) `db` is an open connection; (A) `argument` is as `op` requires.
    pub(crate) unsafe fn control(
        &self,
        db: *mut sqlite3,
        op: c_int,
        argument: *mut c_void,
    ) -> c_int {
        // SAFETY: (D) and (A).
        unsafe { (self.file_control)(db, c"main".as_ptr(), op, argument) }
    }

    /// # Safety
    ///
    /// (D) `db` is an open connection without a running statement.
    pub(crate) unsafe fn run(&self, db: *mut sqlite3, sql: &std::ffi::CStr) -> c_int {
        let nothing = std::ptr::null_mut();
        // SAFETY: (D); callback and error text are null.
        unsafe {
            (self.exec)(
                db,
                sql.as_ptr(),
                std::ptr::null(),
                nothing,
                std::ptr::null_mut(),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    /// Functions of one version of SQLite. The tests call only `version` and `malloc`.
    macro_rules! sqlite {
        ($name:ident, $version:literal) => {
            mod $name {
                use super::*;

                extern "C" fn version() -> c_int {
                    $version
                }

                extern "C" fn malloc(bytes: u64) -> *mut c_void {
                    // SAFETY: any size is allowed.
                    unsafe { libc::malloc(bytes as usize) }
                }

                // The result differs between modules, so the compiler cannot merge the functions.
                extern "C" fn find(_: *const c_char) -> *mut sqlite3_vfs {
                    std::ptr::without_provenance_mut($version)
                }

                pub(super) fn routines() -> Vec<*const c_void> {
                    let mut table = vec![find as *const c_void; 260];
                    table[slot::LIBVERSION_NUMBER] = version as *const c_void;
                    table[slot::MALLOC64] = malloc as *const c_void;
                    table
                }
            }
        };
    }

    sqlite!(first, 3_045_001);
    sqlite!(second, 3_040_000);
    sqlite!(old, 3_008_011);
    sqlite!(oldest, 3_007_000);

    /// Registers as an extension, with a registration that has this result.
    fn registered(
        routines: &[*const c_void],
        result: Registration,
    ) -> (Result<Registration, Refusal>, Option<String>) {
        registered_by(routines, || result)
    }

    fn registered_by(
        routines: &[*const c_void],
        register: impl FnOnce() -> Registration,
    ) -> (Result<Registration, Refusal>, Option<String>) {
        let mut error = std::ptr::null_mut();
        // SAFETY: (R) the entries that the call uses are functions with SQLite's types; (E) the
        // error is a local variable.
        let registered =
            unsafe { register_routines(routines.as_ptr(), &raw mut error, |_| register()) };
        if error.is_null() {
            return (registered, None);
        }
        // SAFETY: a terminated text, as long as it is not freed.
        let text = unsafe { CStr::from_ptr(error) }
            .to_str()
            .unwrap()
            .to_owned();
        // SAFETY: allocated by `malloc`.
        unsafe { libc::free(error.cast()) };
        (registered, Some(text))
    }

    /// These are one test, since the host is a static variable.
    #[test]
    fn one_sqlite_becomes_the_host_and_others_get_a_text() {
        const DONE: Registration = Registration::Registered(0);
        const FAILED: Registration = Registration::Failed(1);
        let done = |routines: &[_]| registered(routines, DONE);
        // A copy in which the registration fails is not the host. While it is in progress, other
        // copies are refused, also after a nested registration has failed.
        let first = first::routines();
        let outer = registered_by(&second::routines(), || {
            assert_eq!(registered(&second::routines(), FAILED), (Ok(FAILED), None));
            assert_eq!(done(&first).0, Err(Refusal::Another));
            FAILED
        });
        assert_eq!(outer, (Ok(FAILED), None));
        // A registration that panics fails.
        let panics = || registered_by(&second::routines(), || panic!("a panic on purpose"));
        assert!(std::panic::catch_unwind(panics).is_err());
        // A nested registration has succeeded, so its copy stays the host.
        let outer = registered_by(&first, || {
            assert_eq!(done(&first), (Ok(DONE), None));
            FAILED
        });
        assert_eq!(outer, (Ok(FAILED), None));
        assert_eq!(done(&first), (Ok(DONE), None));
        let (refused, text) = done(&second::routines());
        assert_eq!(refused, Err(Refusal::Another));
        assert!(text.unwrap().contains("another SQLite library"));
        let (refused, text) = done(&old::routines());
        assert_eq!(refused, Err(Refusal::Old));
        assert!(text.unwrap().contains("3.31"));
        assert_eq!(done(&oldest::routines()), (Err(Refusal::Old), None));
        assert_eq!(registered(&first, FAILED), (Ok(FAILED), None));
        assert_eq!(done(&second::routines()).0, Err(Refusal::Another));
    }
}
