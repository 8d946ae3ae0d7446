/* A full disk: the folder is of a small file system. */

#include "check.h"

static char buf[8 << 20];

int main(int argc, char **argv) {
  struct pw_cache_options *options;
  struct pw_cache *cache;
  struct pw_file *file;
  struct pw_file_info info;
  size_t nr;
  CHECK(argc == 2);
  OK(pw_cache_options_new(&options));
  OK(pw_cache_options_set_close_timeout(options, 50));
  OK(pw_cache_new(options, &cache));
  OK(pw_cache_options_free(options));
  OK(pw_open(cache, path_in(argv[1], "file"), PW_OPEN_CREATE | PW_OPEN_MANUAL, NULL, &file));
  memset(buf, 'x', sizeof buf);
  OK(pw_write(file, buf, sizeof buf, 0, &nr));
  CHECK(nr == sizeof buf);
  RETURNS(PW_ERROR_IO, pw_sync_data(file));
  CHECK(pw_last_errno() == ENOSPC && strstr(pw_last_error(), path_in(argv[1], "file")) != NULL);
  RETURNS(PW_ERROR_IO, pw_close(file));
  CHECK(pw_last_errno() == ENOSPC);
  /* All of it is in the cache, and dirty. With less of it there is room. */
  OK(pw_file_info(file, &info, sizeof info));
  CHECK(info.size == (int64_t)sizeof buf && info.nr_dirty > 0);
  OK(pw_set_size(file, 4096));
  OK(pw_sync_data(file));
  OK(pw_close(file));
  OK(pw_cache_close(cache));
  return 0;
}
