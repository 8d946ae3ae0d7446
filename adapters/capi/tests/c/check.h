/* What the C tests share. */

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

/* A cache with the defaults; with threads for an engine where the tests are run by a valgrind that stands still in calls of io_uring. */
static inline int new_cache(struct pw_cache **cache) {
  struct pw_cache_options *options;
  OK(pw_cache_options_new(&options));
  if (getenv("PAGEWELL_TEST_WORKERS") != NULL)
    OK(pw_cache_options_set_engine(options, PW_ENGINE_WORKER));
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

#endif
