/* A call that fails because of the number of handles, or for lack of memory, has no effect on a file. */

#include "check.h"

#include <sys/mman.h>
#include <sys/resource.h>
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

/* An array of zeros, which takes addresses and no memory. */
static void *zeros(size_t size) {
  void *array = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(array != MAP_FAILED);
  return array;
}

/* Limits the process to the addresses that it has, and a few more. Returns the old limit. */
static struct rlimit no_more_addresses(void) {
  struct rlimit before, limit;
  unsigned long nr_pages;
  FILE *statm = fopen("/proc/self/statm", "r");
  CHECK(statm != NULL && fscanf(statm, "%lu", &nr_pages) == 1);
  fclose(statm);
  CHECK(getrlimit(RLIMIT_AS, &before) == 0);
  limit = before;
  limit.rlim_cur = nr_pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)8 << 20);
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
  return before;
}

static void no_memory_for_a_list(struct pw_cache *cache, const char *folder) {
  enum { COUNT = 1 << 24 };
  struct pw_file *file;
  struct pw_read_request *requests = zeros(COUNT * sizeof *requests);
  struct pw_range *ranges = zeros(COUNT * sizeof *ranges);
  char buf[2];
  size_t nr_read;

  OK(pw_open(cache, make_file(folder, "listed", 1000), 0, NULL, &file));
  struct rlimit before = no_more_addresses();
  REFUSED(PW_ERROR_OUT_OF_MEMORY, pw_prefetch(file, ranges, COUNT, NULL));
  REFUSED(PW_ERROR_OUT_OF_MEMORY, pw_read_many(file, requests, COUNT));
  /* Buffers in descending order, which are sorted to find those that overlap. */
  for (int i = 0; i < 2; i++) {
    requests[i].buf = &buf[1 - i];
    requests[i].size = 1;
  }
  REFUSED(PW_ERROR_OUT_OF_MEMORY, pw_read_many(file, requests, COUNT));
  CHECK(setrlimit(RLIMIT_AS, &before) == 0);
  OK(pw_read(file, buf, 1, 0, &nr_read));
  CHECK(nr_read == 1);
  OK(pw_close(file));
  CHECK(munmap(requests, COUNT * sizeof *requests) == 0);
  CHECK(munmap(ranges, COUNT * sizeof *ranges) == 0);
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
  no_memory_for_a_list(cache, argv[1]);
  OK(pw_cache_close(cache));
  return 0;
}
