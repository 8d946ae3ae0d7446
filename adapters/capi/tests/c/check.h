/* Checks and helpers of the C tests. */

#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pagewell.h>

/* Ends the program unless `condition` holds. */
#define CHECK(condition)                                                                                               \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #condition, pw_last_error());                 \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

/* Ends the program unless `call` returns `code`. */
#define RETURNS(code, call)                                                                                            \
  do {                                                                                                                 \
    int returned_ = (call);                                                                                            \
    if (returned_ != (code)) {                                                                                         \
      fprintf(stderr, "%s:%d: %s returned %d (%s), not %s; last error: %s\n", __FILE__, __LINE__, #call, returned_,    \
              pw_strerror(returned_), #code, pw_last_error());                                                         \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

#define OK(call) RETURNS(PW_OK, call)

/* Ends the program unless `call` returns the error `code`, with a text. */
#define REFUSED(code, call)                                                                                            \
  do {                                                                                                                 \
    RETURNS(code, call);                                                                                               \
    CHECK(pw_last_code() == (code) && pw_last_errno() != 0 && strlen(pw_last_error()) > 10);                           \
  } while (0)

/* Whether valgrind runs the test. */
static inline int is_valgrind(void) { return getenv("PAGEWELL_TEST_WORKERS") != NULL; }

/* Selects the engine of threads under valgrind, which hangs in calls of io_uring. */
static inline void choose_engine(struct pw_cache_options *options) {
  if (is_valgrind())
    OK(pw_cache_options_set_engine(options, PW_ENGINE_WORKER));
}

/* Creates a cache with the default options, except for the engine. */
static inline int new_cache(struct pw_cache **cache) {
  struct pw_cache_options *options;
  OK(pw_cache_options_new(&options));
  choose_engine(options);
  int error = pw_cache_new(options, cache);
  OK(pw_cache_options_free(options));
  return error;
}

/* `folder/name`, in one of a few places. */
static inline const char *path_in(const char *folder, const char *name) {
  static char paths[8][4200];
  static int next;
  char *path = paths[next++ % 8];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

/* Makes a file of `size` bytes, each 251st the same. */
static inline const char *make_file(const char *folder, const char *name, size_t size) {
  const char *path = path_in(folder, name);
  FILE *file = fopen(path, "wb");
  CHECK(file != NULL);
  for (size_t i = 0; i < size; i++)
    CHECK(fputc((int)(i % 251), file) != EOF);
  CHECK(fclose(file) == 0);
  return path;
}

static inline int never_written(void *user, uint64_t page, uint64_t lsn) {
  (void)user, (void)page, (void)lsn;
  abort();
}

static inline void never_completed(const struct pw_completion *completion, void *user) {
  (void)completion, (void)user;
  abort();
}

/* Handles that calls refuse, and structures with such handles. */
struct refused {
  struct pw_cache_options *cache_options;
  struct pw_cache *cache;
  struct pw_open_options *open_options;
  struct pw_file *file;
  struct pw_queue *queue;
  struct pw_page page;
  struct pw_edit edit;
  uint64_t request;
};

/* Calls each function of the row "all others" of the table "Fork" in the header, which tests/header.rs checks. */
static inline void all_others_refuse(int code, const struct refused *its) {
  struct pw_file *new_file;
  struct pw_cache_stats cache_stats;
  struct pw_file_info info;
  struct pw_page page = its->page;
  struct pw_edit edit = its->edit;
  struct pw_range range = {0, 0};
  char buf[8] = {0};
  int number;
  size_t nr;
  int64_t size;

  REFUSED(code, pw_cache_options_set_capacity(its->cache_options, 1));
  REFUSED(code, pw_cache_options_set_page_size(its->cache_options, 1));
  REFUSED(code, pw_cache_options_set_huge_pages(its->cache_options, 0));
  REFUSED(code, pw_cache_options_set_dirty_limit(its->cache_options, 1));
  REFUSED(code, pw_cache_options_set_max_dirty_age(its->cache_options, 1));
  REFUSED(code, pw_cache_options_set_stall_timeout(its->cache_options, 1));
  REFUSED(code, pw_cache_options_set_close_timeout(its->cache_options, 1));
  REFUSED(code, pw_cache_options_set_engine(its->cache_options, 0));
  REFUSED(code, pw_cache_options_free(its->cache_options));
  REFUSED(code, pw_cache_stats(its->cache, &cache_stats, sizeof cache_stats));
  REFUSED(code, pw_cache_engine(its->cache, &number, NULL, 0));
  REFUSED(code, pw_cache_reclaim(its->cache, 1, NULL));
  REFUSED(code, pw_open_options_set_page_size(its->open_options, 4096));
  REFUSED(code, pw_open_options_set_mode(its->open_options, 0600));
  REFUSED(code, pw_open_options_set_before_write(its->open_options, never_written, NULL, NULL));
  REFUSED(code, pw_open_options_set_page_hooks(its->open_options, NULL, NULL, NULL, NULL, NULL));
  REFUSED(code, pw_open_options_free(its->open_options));
  REFUSED(code, pw_open(its->cache, "path", 0, NULL, &new_file));
  REFUSED(code, pw_dup(its->file, &new_file));
  REFUSED(code, pw_file_info(its->file, &info, sizeof info));
  REFUSED(code, pw_refresh(its->file, &size));
  REFUSED(code, pw_pin(its->file, 0, &page));
  REFUSED(code, pw_unpin(&page));
  REFUSED(code, pw_advise(its->file, 0, 0, PW_ADVICE_NORMAL));
  REFUSED(code, pw_advise(its->file, 0, 0, PW_ADVICE_SOON));
  REFUSED(code, pw_advise(its->file, 0, 0, PW_ADVICE_NOT_SOON));
  REFUSED(code, pw_prefetch(its->file, &range, 1, &nr));
  REFUSED(code, pw_invalidate(its->file, 0, 0));
  REFUSED(code, pw_write(its->file, buf, 5, 0, &nr));
  REFUSED(code, pw_write_lsn(its->file, buf, 5, 0, 1, &nr));
  REFUSED(code, pw_append(its->file, buf, 5, &size));
  REFUSED(code, pw_append_lsn(its->file, buf, 5, 1, &size));
  REFUSED(code, pw_set_size(its->file, 1));
  REFUSED(code, pw_flush(its->file, 0, 0, &nr));
  REFUSED(code, pw_sync_data(its->file));
  REFUSED(code, pw_sync_all(its->file));
  REFUSED(code, pw_sync_range(its->file, 0, 1));
  REFUSED(code, pw_discard(its->file, 0, 1));
  REFUSED(code, pw_edit_begin(its->file, 0, 0, &edit));
  REFUSED(code, pw_edit_publish(&edit, 0));
  REFUSED(code, pw_edit_cancel(&edit));
  REFUSED(code, pw_edit_commit(&edit, 0));
  REFUSED(code, pw_queue_fd(its->queue, &number));
  REFUSED(code, pw_queue_run(its->queue, 1, 0, &nr));
  REFUSED(code, pw_queue_run(its->queue, 1, -1, &nr));
  REFUSED(code, pw_queue_cancel(its->queue, its->request));
  REFUSED(code, pw_submit_read(its->queue, its->file, buf, 1, 0, never_completed, NULL, NULL));
  REFUSED(code, pw_submit_write(its->queue, its->file, buf, 1, 0, never_completed, NULL, NULL));
  REFUSED(code, pw_submit_append(its->queue, its->file, buf, 1, never_completed, NULL, NULL));
  REFUSED(code, pw_submit_sync_data(its->queue, its->file, never_completed, NULL, NULL));
  REFUSED(code, pw_submit_pin(its->queue, its->file, 0, never_completed, NULL, NULL));
  REFUSED(code, pw_queue_close(its->queue));
  REFUSED(code, pw_close(its->file));
  REFUSED(code, pw_cache_close(its->cache));
}

#endif
