/*
** Gives the file with the inode number PAGEWELL_HIDDEN the number PAGEWELL_TOLD, as some file systems do with files of several file systems below them:
** to be loaded before a program (LD_PRELOAD).
*/
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned long long told(unsigned long long inode) {
  const char *hidden = getenv("PAGEWELL_HIDDEN"), *shown = getenv("PAGEWELL_TOLD");
  if (hidden != NULL && shown != NULL && strtoull(hidden, NULL, 10) == inode) {
    return strtoull(shown, NULL, 10);
  }
  return inode;
}

int statx(int directory, const char *restrict path, int flags, unsigned mask, struct statx *restrict answer) {
  long result = syscall(SYS_statx, directory, path, flags, mask, answer);
  if (result == 0) answer->stx_ino = told(answer->stx_ino);
  return (int)result;
}

int fstatat(int directory, const char *restrict path, struct stat *restrict answer, int flags) {
  long result = syscall(SYS_newfstatat, directory, path, answer, flags);
  if (result == 0) answer->st_ino = told(answer->st_ino);
  return (int)result;
}

int stat(const char *restrict path, struct stat *restrict answer) { return fstatat(AT_FDCWD, path, answer, 0); }

int lstat(const char *restrict path, struct stat *restrict answer) { return fstatat(AT_FDCWD, path, answer, AT_SYMLINK_NOFOLLOW); }

int fstat(int file, struct stat *answer) {
  long result = syscall(SYS_fstat, file, answer);
  if (result == 0) answer->st_ino = told(answer->st_ino);
  return (int)result;
}
