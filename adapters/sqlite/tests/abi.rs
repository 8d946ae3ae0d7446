//! SQLite's types as this crate has them are those of its bindings, field by field.

use std::mem::{offset_of, size_of};

use libsqlite3_sys as theirs;
use pagewell_sqlite::abi as ours;

macro_rules! same {
    ($kind:ident: $($our:ident $their:ident),* $(,)?) => {
        assert_eq!(size_of::<ours::$kind>(), size_of::<theirs::$kind>());
        $(assert_eq!(
            offset_of!(ours::$kind, $our),
            offset_of!(theirs::$kind, $their),
            stringify!($our)
        );)*
    };
}

#[test]
fn structures_are_laid_out_as_the_headers_say() {
    same!(sqlite3_file: methods pMethods);
    same!(sqlite3_io_methods:
        version iVersion, close xClose, read xRead, write xWrite, truncate xTruncate, sync xSync,
        file_size xFileSize, lock xLock, unlock xUnlock, check_reserved_lock xCheckReservedLock,
        file_control xFileControl, sector_size xSectorSize,
        device_characteristics xDeviceCharacteristics, shm_map xShmMap, shm_lock xShmLock,
        shm_barrier xShmBarrier, shm_unmap xShmUnmap, fetch xFetch, unfetch xUnfetch
    );
    same!(sqlite3_vfs:
        version iVersion, file_bytes szOsFile, max_path mxPathname, next pNext, name zName,
        app_data pAppData, open xOpen, delete xDelete, access xAccess, full_pathname xFullPathname,
        dl_open xDlOpen, dl_error xDlError, dl_sym xDlSym, dl_close xDlClose,
        randomness xRandomness, sleep xSleep, current_time xCurrentTime,
        get_last_error xGetLastError, current_time_int64 xCurrentTimeInt64,
        set_system_call xSetSystemCall, get_system_call xGetSystemCall,
        next_system_call xNextSystemCall
    );
}

#[test]
fn numbers_are_those_of_the_headers() {
    macro_rules! equal {
        ($($our:ident $their:ident),* $(,)?) => {
            $(assert_eq!(i64::from(ours::$our), i64::from(theirs::$their), stringify!($our));)*
        };
    }
    equal!(
        OK SQLITE_OK, ERROR SQLITE_ERROR, BUSY SQLITE_BUSY, NOMEM SQLITE_NOMEM,
        READONLY SQLITE_READONLY, IOERR SQLITE_IOERR, NOTFOUND SQLITE_NOTFOUND, FULL SQLITE_FULL,
        CANTOPEN SQLITE_CANTOPEN, MISUSE SQLITE_MISUSE,
        OK_LOAD_PERMANENTLY SQLITE_OK_LOAD_PERMANENTLY,
        CANTOPEN_SYMLINK SQLITE_CANTOPEN_SYMLINK, IOERR_READ SQLITE_IOERR_READ,
        IOERR_SHORT_READ SQLITE_IOERR_SHORT_READ, IOERR_WRITE SQLITE_IOERR_WRITE,
        IOERR_FSYNC SQLITE_IOERR_FSYNC, IOERR_TRUNCATE SQLITE_IOERR_TRUNCATE,
        IOERR_NOMEM SQLITE_IOERR_NOMEM, IOERR_CLOSE SQLITE_IOERR_CLOSE,
        IOERR_CORRUPTFS SQLITE_IOERR_CORRUPTFS, OPEN_READONLY SQLITE_OPEN_READONLY,
        OPEN_READWRITE SQLITE_OPEN_READWRITE, OPEN_CREATE SQLITE_OPEN_CREATE,
        OPEN_DELETEONCLOSE SQLITE_OPEN_DELETEONCLOSE, OPEN_EXCLUSIVE SQLITE_OPEN_EXCLUSIVE,
        OPEN_MAIN_DB SQLITE_OPEN_MAIN_DB, OPEN_NOFOLLOW SQLITE_OPEN_NOFOLLOW,
        LOCK_NONE SQLITE_LOCK_NONE, LOCK_SHARED SQLITE_LOCK_SHARED,
        LOCK_RESERVED SQLITE_LOCK_RESERVED, LOCK_PENDING SQLITE_LOCK_PENDING,
        LOCK_EXCLUSIVE SQLITE_LOCK_EXCLUSIVE, SYNC_DATAONLY SQLITE_SYNC_DATAONLY,
        SHM_UNLOCK SQLITE_SHM_UNLOCK, SHM_LOCK SQLITE_SHM_LOCK, SHM_SHARED SQLITE_SHM_SHARED,
        SHM_EXCLUSIVE SQLITE_SHM_EXCLUSIVE,
        IOCAP_POWERSAFE_OVERWRITE SQLITE_IOCAP_POWERSAFE_OVERWRITE,
        IOCAP_SUBPAGE_READ SQLITE_IOCAP_SUBPAGE_READ, FCNTL_LOCKSTATE SQLITE_FCNTL_LOCKSTATE,
        FCNTL_LAST_ERRNO SQLITE_FCNTL_LAST_ERRNO, FCNTL_SIZE_HINT SQLITE_FCNTL_SIZE_HINT,
        FCNTL_CHUNK_SIZE SQLITE_FCNTL_CHUNK_SIZE, FCNTL_PERSIST_WAL SQLITE_FCNTL_PERSIST_WAL,
        FCNTL_VFSNAME SQLITE_FCNTL_VFSNAME,
        FCNTL_POWERSAFE_OVERWRITE SQLITE_FCNTL_POWERSAFE_OVERWRITE,
        FCNTL_PRAGMA SQLITE_FCNTL_PRAGMA, FCNTL_MMAP_SIZE SQLITE_FCNTL_MMAP_SIZE,
        FCNTL_HAS_MOVED SQLITE_FCNTL_HAS_MOVED, FCNTL_SYNC SQLITE_FCNTL_SYNC,
        FCNTL_VFS_POINTER SQLITE_FCNTL_VFS_POINTER, FCNTL_CKPT_DONE SQLITE_FCNTL_CKPT_DONE,
        FCNTL_EXTERNAL_READER SQLITE_FCNTL_EXTERNAL_READER,
    );
    assert_eq!(ours::SHM_NLOCK, theirs::SQLITE_SHM_NLOCK as usize);
}
