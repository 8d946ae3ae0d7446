/* A call that fails because of the number of handles has no effect on a file. */

#include "check.h"

#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FILES = 65535, MAX_EDITS = 16383, PAGE = 4096 };

static struct pw_file *files[MAX_FILES];
static struct pw_edit edits[MAX_EDITS];

static int64_t size_of(const char *path) {
  struct stat found;
  CHECK(stat(path, &found) == 0);
  return (int64_t)found.st_size;
}

static void no_handle_of_a_file(struct pw_cache *cache, const char *folder) {
  struct pw_file *more;
  const char *kept = make_file(folder, "kept", 1000);
  const char *missing = path_in(folder, "missing");

  OK(pw_open(cache, make_file(folder, "open", 1000), 0, NULL, &files[0]));
  for (int i = 1; i < MAX_FILES; i++)
    OK(pw_dup(files[0], &files[i]));
  REFUSED(PW_ERROR_LIMIT, pw_dup(files[0], &more));
  REFUSED(PW_ERROR_LIMIT, pw_open(cache, kept, PW_OPEN_TRUNCATE, NULL, &more));
  CHECK(size_of(kept) == 1000);
  REFUSED(PW_ERROR_LIMIT, pw_open(cache, missing, PW_OPEN_CREATE, NULL, &more));
  REFUSED(PW_ERROR_LIMIT, pw_open(cache, missing, PW_OPEN_CREATE_NEW, NULL, &more));
  CHECK(access(missing, F_OK) != 0 && errno == ENOENT);

  /* An open that fails for another reason leaves the last handle to the next one. */
  OK(pw_close(files[0]));
  RETURNS(PW_ERROR_NOT_FOUND, pw_open(cache, missing, 0, NULL, &more));
  OK(pw_open(cache, kept, PW_OPEN_TRUNCATE, NULL, &files[0]));
  CHECK(size_of(kept) == 0);
  for (int i = 0; i < MAX_FILES; i++)
    OK(pw_close(files[i]));
}

static void no_handle_of_an_edit(struct pw_cache *cache, const char *folder) {
  struct pw_file *file;
  struct pw_file_info info;
  struct pw_edit more;

  OK(pw_open(cache, path_in(folder, "pages"), PW_OPEN_CREATE | PW_OPEN_MANUAL, NULL, &file));
  OK(pw_set_size(file, (int64_t)(MAX_EDITS + 1) * PAGE));
  OK(pw_sync_all(file));
  for (int i = 0; i < MAX_EDITS; i++)
    OK(pw_edit_begin(file, (uint64_t)i, 0, &edits[i]));
  REFUSED(PW_ERROR_LIMIT, pw_edit_begin(file, MAX_EDITS, 0, &more));
  OK(pw_edit_cancel(&edits[0]));
  /* The page is neither written nor locked. */
  OK(pw_file_info(file, &info, sizeof info));
  CHECK(info.nr_dirty == 0);
  OK(pw_edit_begin(file, MAX_EDITS, PW_EDIT_TRY, &edits[0]));
  memset(edits[0].data, 'x', edits[0].size);
  for (int i = 1; i < MAX_EDITS; i++)
    OK(pw_edit_cancel(&edits[i]));
  OK(pw_edit_commit(&edits[0], 0));
  OK(pw_file_info(file, &info, sizeof info));
  CHECK(info.nr_dirty == 1);
  OK(pw_close(file));
}

int main(int argc, char **argv) {
  struct pw_cache_options *options;
  struct pw_cache *cache;
  CHECK(argc == 2);
  OK(pw_cache_options_new(&options));
  /* Two frames for each page that is edited. */
  OK(pw_cache_options_set_capacity(options, 192 << 20));
  OK(pw_cache_new(options, &cache));
  OK(pw_cache_options_free(options));
  no_handle_of_a_file(cache, argv[1]);
  no_handle_of_an_edit(cache, argv[1]);
  OK(pw_cache_close(cache));
  return 0;
}
