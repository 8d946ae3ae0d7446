/*
** What SQLite's test suite needs of a VFS: that it fails when a test says so, and counts its syncs.
**
** SQLite's VFS for Unix has that inside, in the build for tests. The one that is tested here is the one that ships; so its methods are called by way of
** these functions, which fail, or count, and pass the call on. Only main databases come here: all other files are of the VFS for Unix.
**
** The program (SQLite's `testfixture`) is built with SQLITE_EXTRA_INIT=pagewell_suite_init, and has this VFS as its default if PAGEWELL_SUITE is set.
*/
#include "sqlite3.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

int pagewell_sqlite_register(int is_default);
int pagewell_suite_init(const char *unused);

/* What the tests set and look at: variables of SQLite's build for tests. */
extern int sqlite3_io_error_hit;
extern int sqlite3_io_error_hardhit;
extern int sqlite3_io_error_pending;
extern int sqlite3_io_error_persist;
extern int sqlite3_io_error_benign;
extern int sqlite3_diskfull_pending;
extern int sqlite3_diskfull;
extern int sqlite3_sync_count;
extern int sqlite3_fullsync_count;
extern int sqlite3_open_file_count;

static void error_hit(void) {
  sqlite3_io_error_hit++;
  if (!sqlite3_io_error_benign) sqlite3_io_error_hardhit++;
}

/* Whether this call is one that is to fail. */
static int fails(void) {
  if ((sqlite3_io_error_persist && sqlite3_io_error_hit) || sqlite3_io_error_pending-- == 1) {
    error_hit();
    return 1;
  }
  return 0;
}

/* Whether there is to be no space for this call. */
static int is_full(void) {
  if (sqlite3_diskfull_pending == 1) {
    error_hit();
    sqlite3_diskfull = 1;
    sqlite3_io_error_hit = 1;
    return 1;
  }
  if (sqlite3_diskfull_pending) sqlite3_diskfull_pending--;
  return 0;
}

static const sqlite3_io_methods *tested; /* the methods that are called in the end */
static sqlite3_io_methods methods;       /* those methods, with the hooks */
static sqlite3_vfs *tested_vfs;
static sqlite3_vfs vfs;

/*
** The databases that are open. The tests of crashes decide which of the writes the storage has (SQLite's test6.c), call xWrite for those, and end the
** process; so whatever was written then must be in the file.
*/
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static sqlite3_file *open_files[1000];

static void exchange(sqlite3_file *what, sqlite3_file *with) {
  size_t nr;
  pthread_mutex_lock(&open_lock);
  for (nr = 0; nr < sizeof open_files / sizeof *open_files; nr++) {
    if (open_files[nr] == what) {
      open_files[nr] = with;
      break;
    }
  }
  pthread_mutex_unlock(&open_lock);
}

static void write_everything(void) {
  size_t nr;
  for (nr = 0; nr < sizeof open_files / sizeof *open_files; nr++) {
    if (open_files[nr]) tested->xFileControl(open_files[nr], SQLITE_FCNTL_SYNC, 0);
  }
}

static int hooked_close(sqlite3_file *file) {
  sqlite3_open_file_count--;
  exchange(file, 0);
  return tested->xClose(file);
}

static int hooked_read(sqlite3_file *file, void *buf, int len, sqlite3_int64 pos) {
  if (fails()) return SQLITE_IOERR_READ;
  return tested->xRead(file, buf, len, pos);
}

static int hooked_write(sqlite3_file *file, const void *bytes, int len, sqlite3_int64 pos) {
  if (fails()) return SQLITE_IOERR_WRITE;
  if (is_full()) return SQLITE_FULL;
  return tested->xWrite(file, bytes, len, pos);
}

static int hooked_truncate(sqlite3_file *file, sqlite3_int64 size) {
  if (fails()) return SQLITE_IOERR_TRUNCATE;
  return tested->xTruncate(file, size);
}

static int hooked_sync(sqlite3_file *file, int flags) {
  if (is_full()) return SQLITE_FULL;
  if ((flags & 0x0F) == SQLITE_SYNC_FULL) sqlite3_fullsync_count++;
  sqlite3_sync_count++;
  if (fails()) return SQLITE_IOERR_FSYNC;
  return tested->xSync(file, flags);
}

static int hooked_file_size(sqlite3_file *file, sqlite3_int64 *size) {
  if (fails()) return SQLITE_IOERR_FSTAT;
  return tested->xFileSize(file, size);
}

static int hooked_check_reserved_lock(sqlite3_file *file, int *answer) {
  if (fails()) return SQLITE_IOERR_CHECKRESERVEDLOCK;
  return tested->xCheckReservedLock(file, answer);
}

static int hooked_open(sqlite3_vfs *unused, const char *name, sqlite3_file *file, int flags, int *out) {
  int rc = tested_vfs->xOpen(tested_vfs, name, file, flags, out);
  (void)unused;
  if (rc != SQLITE_OK || name == 0 || (flags & SQLITE_OPEN_MAIN_DB) == 0) return rc;
  sqlite3_open_file_count++;
  if (tested == 0) {
    tested = file->pMethods;
    methods = *tested;
    methods.xClose = hooked_close;
    methods.xRead = hooked_read;
    methods.xWrite = hooked_write;
    methods.xTruncate = hooked_truncate;
    methods.xSync = hooked_sync;
    methods.xFileSize = hooked_file_size;
    methods.xCheckReservedLock = hooked_check_reserved_lock;
    atexit(write_everything);
  }
  exchange(0, file);
  file->pMethods = &methods;
  return rc;
}

int pagewell_suite_init(const char *unused) {
  int rc;
  (void)unused;
  if (getenv("PAGEWELL_SUITE") == 0) return SQLITE_OK;
  rc = pagewell_sqlite_register(0);
  if (rc != SQLITE_OK) return rc;
  tested_vfs = sqlite3_vfs_find("pagewell");
  vfs = *tested_vfs;
  vfs.zName = "pagewell-suite";
  vfs.pNext = 0;
  vfs.xOpen = hooked_open;
  return sqlite3_vfs_register(&vfs, 1);
}
