/*
** Writes down what a program does to the files of one folder: to be loaded before it (LD_PRELOAD). The test `power_loss` makes of it what a disk may have
** after a loss of power at any moment.
**
** PAGEWELL_RECORD names the file that it goes to, PAGEWELL_FOLDER the folder (an absolute path). Each record is five numbers of 64 bits (kind, file, position, length, 0), and then so many
** bytes. A file is its inode. An operation and its record are one step; a sync is two, its begin and its end: what was recorded before its begin is durable at its end.
**
** With PAGEWELL_LIES set, syncs of the database do nothing and say that they have: what the test must find.
*/
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, TRUNCATE, SYNC_BEGINS, SYNC_ENDS, CREATE, UNLINK, SAID };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int record = -1;
static char folder[PATH_MAX];

/* The next definition of a function: the system's. */
#define NEXT(type, name, ...) \
  static type (*next)(__VA_ARGS__); \
  if (!next) next = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static void all(const void *bytes, size_t len) {
  while (len > 0) {
    long nr = syscall(SYS_write, record, bytes, len);
    if (nr < 0) _exit(99);
    bytes = (const char *)bytes + nr;
    len -= (size_t)nr;
  }
}

static void note(uint64_t kind, uint64_t file, uint64_t pos, const void *bytes, size_t len) {
  uint64_t head[5] = {kind, file, pos, len, 0};
  all(head, sizeof head);
  if (len) all(bytes, len);
}

__attribute__((constructor)) static void start(void) {
  const char *to = getenv("PAGEWELL_RECORD"), *of = getenv("PAGEWELL_FOLDER");
  if (!to || !of) return;
  snprintf(folder, sizeof folder, "%s", of);
  record = (int)syscall(SYS_openat, AT_FDCWD, to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* The file that a descriptor is of, if it is the folder or in it; else 0. */
static uint64_t file_of(int fd, int *is_database) {
  char link[64], path[PATH_MAX];
  struct stat st;
  ssize_t len;
  size_t prefix = strlen(folder);
  if (record < 0) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  len = readlink(link, path, sizeof path - 1);
  if (len < 0) return 0;
  path[len] = 0;
  if (strncmp(path, folder, prefix) != 0 || (path[prefix] && path[prefix] != '/')) return 0;
  if (is_database) *is_database = strcmp(path + prefix, "/db") == 0;
  if (fstat(fd, &st) != 0) return 0;
  return st.st_ino;
}

static ssize_t wrote(int fd, const void *bytes, size_t len, off_t pos, ssize_t nr) {
  (void)len;
  if (nr > 0) {
    uint64_t file = file_of(fd, 0);
    if (file) note(WRITE, file, (uint64_t)pos, bytes, (size_t)nr);
  }
  return nr;
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t pos) {
  ssize_t nr;
  NEXT(ssize_t, "pwrite", int, const void *, size_t, off_t);
  pthread_mutex_lock(&lock);
  nr = wrote(fd, bytes, len, pos, next(fd, bytes, len, pos));
  pthread_mutex_unlock(&lock);
  return nr;
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off64_t pos) { return pwrite(fd, bytes, len, pos); }

ssize_t pwritev(int fd, const struct iovec *list, int nr, off_t pos) {
  ssize_t done = 0;
  int i;
  for (i = 0; i < nr; i++) {
    ssize_t one = pwrite(fd, list[i].iov_base, list[i].iov_len, pos + done);
    if (one < 0) return done ? done : one;
    done += one;
    if ((size_t)one < list[i].iov_len) break;
  }
  return done;
}

ssize_t pwritev64(int fd, const struct iovec *list, int nr, off64_t pos) { return pwritev(fd, list, nr, pos); }

ssize_t write(int fd, const void *bytes, size_t len) {
  ssize_t nr;
  NEXT(ssize_t, "write", int, const void *, size_t);
  pthread_mutex_lock(&lock);
  if (record >= 0 && fd == 1) {
    note(SAID, 0, 0, bytes, len);
    nr = next(fd, bytes, len);
  } else {
    off_t pos = lseek(fd, 0, SEEK_CUR);
    nr = wrote(fd, bytes, len, pos, next(fd, bytes, len));
  }
  pthread_mutex_unlock(&lock);
  return nr;
}

int ftruncate(int fd, off_t size) {
  int code;
  NEXT(int, "ftruncate", int, off_t);
  pthread_mutex_lock(&lock);
  code = next(fd, size);
  if (code == 0) {
    uint64_t file = file_of(fd, 0);
    if (file) note(TRUNCATE, file, (uint64_t)size, 0, 0);
  }
  pthread_mutex_unlock(&lock);
  return code;
}

int ftruncate64(int fd, off64_t size) { return ftruncate(fd, size); }

static int synced(int fd) {
  /* What the system would do takes time and changes nothing that is recorded. */
  int is_database = 0;
  uint64_t file = file_of(fd, &is_database);
  if (!file) return 0;
  if (is_database && getenv("PAGEWELL_LIES")) return 0;
  pthread_mutex_lock(&lock);
  note(SYNC_BEGINS, file, 0, 0, 0);
  pthread_mutex_unlock(&lock);
  pthread_mutex_lock(&lock);
  note(SYNC_ENDS, file, 0, 0, 0);
  pthread_mutex_unlock(&lock);
  return 0;
}

int fsync(int fd) { return synced(fd); }
int fdatasync(int fd) { return synced(fd); }

/* The name of a file of the folder, if that is what a path leads to. */
static const char *name_of(const char *path) {
  size_t prefix = strlen(folder);
  if (record < 0 || strncmp(path, folder, prefix) != 0 || path[prefix] != '/') return 0;
  return path + prefix + 1;
}

static int opened(int at, const char *path, int flags, mode_t mode) {
  const char *name = name_of(path);
  int fd, is_new;
  char full[PATH_MAX];
  if (!name && at != AT_FDCWD && path[0] != '/') {
    char link[64];
    ssize_t len;
    snprintf(link, sizeof link, "/proc/self/fd/%d", at);
    len = readlink(link, full, sizeof full - 1);
    if (len > 0) {
      snprintf(full + len, sizeof full - (size_t)len, "/%s", path);
      name = name_of(full);
    }
  }
  pthread_mutex_lock(&lock);
  is_new = name && (flags & O_CREAT) && faccessat(at, path, F_OK, 0) != 0;
  fd = (int)syscall(SYS_openat, at, path, flags, mode);
  if (fd >= 0 && is_new) {
    uint64_t file = file_of(fd, 0);
    if (file) note(CREATE, file, 0, name, strlen(name));
  }
  pthread_mutex_unlock(&lock);
  return fd;
}

#define MODE mode_t mode = 0; if (flags & (O_CREAT | O_TMPFILE)) { va_list list; va_start(list, flags); mode = (mode_t)va_arg(list, int); va_end(list); }

int open(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE return opened(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE return opened(at, path, flags, mode); }

int unlink(const char *path) {
  const char *name = name_of(path);
  int code;
  NEXT(int, "unlink", const char *);
  pthread_mutex_lock(&lock);
  code = next(path);
  if (code == 0 && name) note(UNLINK, 0, 0, name, strlen(name));
  pthread_mutex_unlock(&lock);
  return code;
}

/* Without io_uring every write is one of the functions above. */
long syscall(long nr, ...) {
  long a, b, c, d, e, f;
  va_list list;
  NEXT(long, "syscall", long, ...);
  va_start(list, nr);
  a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long), d = va_arg(list, long), e = va_arg(list, long), f = va_arg(list, long);
  va_end(list);
  if (nr == 425) { /* io_uring_setup */
    errno = ENOSYS;
    return -1;
  }
  return next(nr, a, b, c, d, e, f);
}
