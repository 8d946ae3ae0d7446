/* What a program can do wrong: an error code and a text, each time. */

#include "check.h"

#include <pthread.h>
#include <limits.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

static char buf[10000];

/* Every call with something that is no handle. */
static void no_handle(void *nothing) {
  struct refused its;
  struct pw_file *file = (struct pw_file *)nothing;
  struct pw_cache *new_cache;
  struct pw_page page;
  struct pw_view view;
  struct pw_read_request request = {buf, 1, 0, 0, 0};
  size_t nr;
  int64_t size;
  const int code = PW_ERROR_HANDLE;

  memset(&its, 0, sizeof its);
  its.cache_options = (struct pw_cache_options *)nothing;
  its.cache = (struct pw_cache *)nothing;
  its.open_options = (struct pw_open_options *)nothing;
  its.file = file;
  its.queue = (struct pw_queue *)nothing;
  its.request = 1;
  its.page.opaque[0] = its.page.opaque[1] = its.edit.opaque = (uint64_t)(uintptr_t)nothing;
  all_others_refuse(code, &its);
  if (nothing != NULL)
    REFUSED(code, pw_cache_new(its.cache_options, &new_cache));
  REFUSED(code, pw_size(file, &size));
  REFUSED(code, pw_read(file, buf, 1, 0, &nr));
  REFUSED(code, pw_read_many(file, &request, 1));
  REFUSED(code, pw_view_begin(file, 0, &view));

  /* And in structures. */
  memset(&page, 0, sizeof page);
  page.opaque[0] = 1, page.opaque[1] = (uint64_t)(uintptr_t)nothing | 1;
  REFUSED(code, pw_unpin(&page));
  memset(&view, 0x5a, sizeof view);
  view.file = file;
  REFUSED(code, pw_view_validate(&view));
  REFUSED(code, pw_view_copy(&view, 0, buf, 1));
}

static void *no_handle_of_thread(void *nothing) {
  no_handle(nothing);
  return NULL;
}

/* Here, and in another thread. */
static void no_handle_anywhere(void *nothing) {
  pthread_t thread;
  no_handle(nothing);
  CHECK(pthread_create(&thread, NULL, no_handle_of_thread, nothing) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
}

static int no_write(void *user, const struct pw_outgoing_page *pages, size_t count) {
  (void)user, (void)pages, (void)count;
  return 0;
}

static int no_read(void *user, uint64_t page, void *data, size_t size) {
  (void)user, (void)page, (void)data, (void)size;
  return 0;
}

static int no_hole(void *user, uint64_t page) {
  (void)user, (void)page;
  return 0;
}

static int nr_released;

static void released(void *user) {
  (void)user;
  nr_released++;
}

static void arguments(struct pw_cache *cache, struct pw_file *file) {
  struct pw_cache_options *options;
  struct pw_open_options *how;
  struct pw_cache *other;
  struct pw_file *opened;
  struct pw_queue *queue;
  struct pw_view view;
  struct pw_edit edit;
  size_t nr;
  const int code = PW_ERROR_ARGUMENT;

  /* Null places, where there has to be one. */
  REFUSED(code, pw_cache_options_new(NULL));
  REFUSED(code, pw_cache_new(NULL, NULL));
  REFUSED(code, pw_cache_stats(cache, NULL, sizeof(struct pw_cache_stats)));
  REFUSED(code, pw_cache_engine(cache, NULL, NULL, 0));
  REFUSED(code, pw_open_options_new(NULL));
  OK(pw_open_options_new(&how));
  /* One function of two, or none of them and one that goes with them. */
  REFUSED(code, pw_open_options_set_page_hooks(how, no_write, NULL, NULL, NULL, released));
  REFUSED(code, pw_open_options_set_page_hooks(how, NULL, no_read, NULL, NULL, released));
  REFUSED(code, pw_open_options_set_page_hooks(how, NULL, NULL, no_hole, NULL, released));
  CHECK(nr_released == 0);
  OK(pw_open_options_set_page_hooks(how, no_write, no_read, NULL, NULL, released));
  CHECK(nr_released == 0);
  OK(pw_open_options_free(how));
  CHECK(nr_released == 1);
  REFUSED(code, pw_open(cache, NULL, 0, NULL, &opened));
  REFUSED(code, pw_open(cache, "path", 0, NULL, NULL));
  REFUSED(code, pw_dup(file, NULL));
  REFUSED(code, pw_file_info(file, NULL, 8));
  REFUSED(code, pw_size(file, NULL));
  REFUSED(code, pw_read(file, buf, 1, 0, NULL));
  REFUSED(code, pw_read(file, NULL, 1, 0, &nr));
  REFUSED(code, pw_read_many(file, NULL, 1));
  REFUSED(code, pw_pin(file, 0, NULL));
  REFUSED(code, pw_unpin(NULL));
  REFUSED(code, pw_view_begin(file, 0, NULL));
  REFUSED(code, pw_view_validate(NULL));
  REFUSED(code, pw_view_copy(NULL, 0, buf, 1));
  REFUSED(code, pw_prefetch(file, NULL, 1, &nr));
  REFUSED(code, pw_write(file, NULL, 1, 0, &nr));
  REFUSED(code, pw_write(file, buf, 1, 0, NULL));
  REFUSED(code, pw_append(file, NULL, 1, NULL));
  REFUSED(code, pw_edit_begin(file, 0, 0, NULL));
  REFUSED(code, pw_edit_publish(NULL, 0));
  REFUSED(code, pw_edit_commit(NULL, 0));
  REFUSED(code, pw_edit_cancel(NULL));
  REFUSED(code, pw_queue_new(NULL));

  /* Sizes, offsets, flags and values that there are not. */
  REFUSED(code, pw_read(file, buf, SIZE_MAX, 0, &nr));
  REFUSED(code, pw_read(file, buf, 1, -1, &nr));
  REFUSED(code, pw_read(file, buf, 1, INT64_MIN, &nr));
  OK(pw_read(file, buf, 1, INT64_MAX, &nr));
  CHECK(nr == 0);
  REFUSED(code, pw_write(file, buf, SIZE_MAX, 0, &nr));
  REFUSED(code, pw_write(file, buf, 1, -1, &nr));
  REFUSED(PW_ERROR_FILE_TOO_LARGE, pw_write(file, buf, 1, INT64_MAX, &nr));
  REFUSED(code, pw_set_size(file, -1));
  REFUSED(PW_ERROR_FILE_TOO_LARGE, pw_set_size(file, INT64_MAX));
  REFUSED(code, pw_read_many(file, (struct pw_read_request *)(void *)buf, SIZE_MAX));
  REFUSED(code, pw_read_many(file, (struct pw_read_request *)(void *)(buf + 1), 1));
  struct pw_read_request overlap[2] = {{buf, 10, 0, 0, 0}, {buf + 9, 1, 0, 0, 0}};
  REFUSED(code, pw_read_many(file, overlap, 2));
  struct pw_read_request turned[2] = {{buf + 9, 1, 0, 0, 0}, {buf, 10, 0, 0, 0}};
  REFUSED(code, pw_read_many(file, turned, 2));
  struct pw_read_request negative = {buf, 1, -1, 0, 0};
  REFUSED(code, pw_read_many(file, &negative, 1));
  REFUSED(code, pw_advise(file, -1, 0, 0));
  REFUSED(code, pw_advise(file, 0, -1, 0));
  REFUSED(code, pw_advise(file, 0, 0, 6));
  REFUSED(code, pw_advise(file, 0, 0, -1));
  REFUSED(code, pw_invalidate(file, -1, 0));
  REFUSED(code, pw_flush(file, 0, -1, NULL));
  REFUSED(code, pw_sync_range(file, -1, 0));
  REFUSED(code, pw_discard(file, -1, 0));
  REFUSED(code, pw_edit_begin(file, 0, 2, &edit));
  REFUSED(PW_ERROR_OUT_OF_RANGE, pw_edit_begin(file, UINT64_MAX, 0, &edit));
  REFUSED(PW_ERROR_OUT_OF_RANGE, pw_view_begin(file, UINT64_MAX, &view));
  REFUSED(code, pw_cache_stats(cache, (struct pw_cache_stats *)(void *)buf, 0));
  REFUSED(code, pw_cache_stats(cache, (struct pw_cache_stats *)(void *)buf, 7));
  REFUSED(code, pw_cache_stats(cache, (struct pw_cache_stats *)(void *)buf, SIZE_MAX));
  REFUSED(code, pw_open(cache, "path", 1 << 20, NULL, &opened));
  REFUSED(code, pw_open(cache, "path", -1, NULL, &opened));
  REFUSED(code, pw_open(cache, "path", PW_OPEN_CREATE_NEW | PW_OPEN_TRUNCATE, NULL, &opened));

  OK(pw_cache_options_new(&options));
  REFUSED(code, pw_cache_options_set_engine(options, 4));
  REFUSED(code, pw_cache_options_set_huge_pages(options, -1));
  OK(pw_cache_options_set_capacity(options, 1));
  REFUSED(PW_ERROR_CONFIG, pw_cache_new(options, &other));
  OK(pw_cache_options_set_capacity(options, UINT64_MAX));
  REFUSED(PW_ERROR_CONFIG, pw_cache_new(options, &other));
  OK(pw_cache_options_set_capacity(options, 1 << 20));
  OK(pw_cache_options_set_page_size(options, 5000));
  REFUSED(PW_ERROR_PAGE_SIZE, pw_cache_new(options, &other));
  OK(pw_cache_options_free(options));

  OK(pw_open_options_new(&how));
  OK(pw_open_options_set_page_size(how, 5000));
  REFUSED(PW_ERROR_PAGE_SIZE, pw_open(cache, "path", 0, how, &opened));
  OK(pw_open_options_free(how));

  OK(pw_queue_new(&queue));
  REFUSED(code, pw_queue_fd(queue, NULL));
  REFUSED(code, pw_queue_run(queue, 1, -2, &nr));
  REFUSED(PW_ERROR_HANDLE, pw_queue_cancel(queue, 1));
  REFUSED(code, pw_submit_read(queue, file, buf, 1, 0, NULL, NULL, NULL));
  REFUSED(code, pw_submit_read(queue, file, NULL, 1, 0, never_completed, NULL, NULL));
  REFUSED(code, pw_submit_read(queue, file, buf, 1, -1, never_completed, NULL, NULL));
  REFUSED(code, pw_submit_read(queue, file, buf, SIZE_MAX, 0, never_completed, NULL, NULL));
  REFUSED(code, pw_submit_write(queue, file, NULL, 1, 0, never_completed, NULL, NULL));
  REFUSED(code, pw_submit_append(queue, file, NULL, 1, never_completed, NULL, NULL));
  OK(pw_queue_close(queue));
}

static void paths(struct pw_cache *cache, const char *folder) {
  struct pw_file *file;
  char longer[5000];
  memset(longer, 'x', sizeof longer - 1);
  longer[sizeof longer - 1] = 0;
  REFUSED(PW_ERROR_NOT_FOUND, pw_open(cache, path_in(folder, "none"), 0, NULL, &file));
  CHECK(pw_last_errno() == ENOENT && strstr(pw_last_error(), "/none") != NULL);
  REFUSED(PW_ERROR_NOT_FOUND, pw_open(cache, "", 0, NULL, &file));
  REFUSED(PW_ERROR_NOT_A_FILE, pw_open(cache, folder, 0, NULL, &file));
  REFUSED(PW_ERROR_NOT_A_FILE, pw_open(cache, folder, PW_OPEN_WRITE, NULL, &file));
  REFUSED(PW_ERROR_PATH, pw_open(cache, longer, 0, NULL, &file));
  CHECK(pw_last_errno() == ENAMETOOLONG);
  REFUSED(PW_ERROR_PATH, pw_open(cache, path_in(path_in(folder, "read-only"), "below"), 0, NULL, &file));
  CHECK(pw_last_errno() == ENOTDIR);
}

/* A handle for reading is not for writing. */
static void read_only(struct pw_cache *cache, const char *folder) {
  struct pw_file *file;
  struct pw_edit edit;
  size_t nr;
  OK(pw_open(cache, path_in(folder, "read-only"), 0, NULL, &file));
  REFUSED(PW_ERROR_READ_ONLY, pw_write(file, buf, 1, 0, &nr));
  REFUSED(PW_ERROR_READ_ONLY, pw_append(file, buf, 1, NULL));
  REFUSED(PW_ERROR_READ_ONLY, pw_set_size(file, 1));
  REFUSED(PW_ERROR_READ_ONLY, pw_sync_data(file));
  REFUSED(PW_ERROR_READ_ONLY, pw_edit_begin(file, 0, 0, &edit));
  OK(pw_close(file));
}

static void *other_thread_commits(void *edit) {
  struct pw_edit copy = *(struct pw_edit *)edit;
  REFUSED(PW_ERROR_THREAD, pw_edit_publish(&copy, 0));
  REFUSED(PW_ERROR_THREAD, pw_edit_commit(&copy, 0));
  REFUSED(PW_ERROR_THREAD, pw_edit_cancel(&copy));
  return NULL;
}

static void edits_of_other_threads(struct pw_file *file) {
  struct pw_edit edit;
  pthread_t thread;
  OK(pw_edit_begin(file, 0, 0, &edit));
  CHECK(pthread_create(&thread, NULL, other_thread_commits, &edit) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  OK(pw_edit_commit(&edit, 0));
}

/* A file that may not grow: what a full disk does, without a disk. */
static void no_space(struct pw_cache *cache, const char *folder) {
  struct rlimit before, limit;
  struct pw_file *file;
  size_t nr;
  OK(pw_open(cache, path_in(folder, "limited"), PW_OPEN_CREATE | PW_OPEN_MANUAL, NULL, &file));
  CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
  limit = before;
  limit.rlim_cur = 4096;
  CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  REFUSED(PW_ERROR_FILE_TOO_LARGE, pw_write(file, buf, sizeof buf, 0, &nr));
  CHECK(strstr(pw_last_error(), "RLIMIT_FSIZE") != NULL);
  /* Lowered after the file has begun to grow, it is noticed at a sync. */
  CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
  OK(pw_write(file, buf, 1, 0, &nr));
  CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  OK(pw_write(file, buf, sizeof buf, 0, &nr));
  REFUSED(PW_ERROR_IO, pw_sync_data(file));
  CHECK(pw_last_errno() == EFBIG && strstr(pw_last_error(), "RLIMIT_FSIZE") != NULL);
  REFUSED(PW_ERROR_IO, pw_close(file));
  CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
  /* Nothing was lost. */
  OK(pw_read(file, buf, sizeof buf, 0, &nr));
  CHECK(nr == sizeof buf);
  OK(pw_close(file));
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  signal(SIGXFSZ, SIG_IGN);
  struct pw_cache *cache, *closed_cache;
  struct pw_file *file, *closed_file;
  struct pw_queue *queue;
  struct pw_open_options *how;
  struct pw_cache_options *options;
  const char *path = make_file(argv[1], "read-only", 10000);

  CHECK(strcmp(pw_strerror(1234), "not an error code") == 0);
  CHECK(strcmp(pw_strerror(INT_MIN), "not an error code") == 0);
  /* Before there is any handle, too. */
  no_handle_anywhere(NULL);
  no_handle_anywhere((void *)(uintptr_t)0x1234567890abcdef);

  OK(new_cache(&cache));
  no_handle_anywhere(NULL);
  static const uintptr_t numbers[] = {1, 2, 64, 65535, 65536, 0x0400000000010001, UINTPTR_MAX, UINTPTR_MAX / 2};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    no_handle_anywhere((void *)numbers[i]);
  no_handle_anywhere(buf);

  /* Closed ones, also when their places have been used by others since. */
  OK(pw_cache_new(NULL, &closed_cache));
  OK(pw_open(closed_cache, path, 0, NULL, &closed_file));
  OK(pw_cache_close(closed_cache));
  OK(pw_close(closed_file));
  OK(pw_queue_new(&queue));
  OK(pw_queue_close(queue));
  OK(pw_open_options_new(&how));
  OK(pw_open_options_free(how));
  OK(pw_cache_options_new(&options));
  OK(pw_cache_options_free(options));
  void *const closed[] = {closed_cache, closed_file, queue, how, options};
  for (size_t i = 0; i < sizeof closed / sizeof *closed; i++) {
    no_handle_anywhere(closed[i]);
    /* With bits beyond, by which the library marks what is not open. */
    for (uintptr_t flags = 1; flags < 8; flags++)
      no_handle_anywhere((void *)((uintptr_t)closed[i] | flags << 61));
  }
  for (uintptr_t flags = 1; flags < 8; flags++)
    no_handle_anywhere((void *)((uintptr_t)cache | flags << 61));
  for (int i = 0; i < 300; i++) {
    OK(pw_open(cache, path, 0, NULL, &file));
    CHECK(file != closed_file);
    RETURNS(PW_ERROR_HANDLE, pw_close(closed_file));
    OK(pw_close(file));
  }

  OK(pw_open(cache, make_file(argv[1], "written", 10000), PW_OPEN_WRITE, NULL, &file));
  /* Of another kind. */
  REFUSED(PW_ERROR_HANDLE, pw_close((struct pw_file *)(void *)cache));
  REFUSED(PW_ERROR_HANDLE, pw_cache_close((struct pw_cache *)(void *)file));
  arguments(cache, file);
  paths(cache, argv[1]);
  read_only(cache, argv[1]);
  edits_of_other_threads(file);
  no_space(cache, argv[1]);
  OK(pw_close(file));
  OK(pw_cache_close(cache));
  no_handle_anywhere(cache);
  return 0;
}
