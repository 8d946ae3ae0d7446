/* A fault inside of the library is an error, and the handle of the call is dead. For a library with the feature `test-panics`. */

#include "check.h"

extern void pw_test_panic(void);

int main(int argc, char **argv) {
  struct pw_cache *cache, *other;
  struct pw_file *file;
  struct pw_queue *queue;
  struct pw_page page;
  char buf[10];
  size_t nr;
  CHECK(argc == 2);
  OK(new_cache(&cache));
  OK(pw_open(cache, make_file(argv[1], "file", 10000), PW_OPEN_WRITE, NULL, &file));
  OK(pw_pin(file, 0, &page));
  OK(pw_write(file, "saved", 5, 0, &nr));

  pw_test_panic();
  RETURNS(PW_ERROR_PANIC, pw_read(file, buf, 5, 0, &nr));
  CHECK(strstr(pw_last_error(), "a panic that a test requested") != NULL);
  RETURNS(PW_ERROR_PANIC, pw_read(file, buf, 5, 0, &nr));
  RETURNS(PW_ERROR_PANIC, pw_sync_data(file));
  /* It can be closed, as any other handle, and what was written is saved. */
  RETURNS(PW_ERROR_BUSY, pw_close(file));
  OK(pw_unpin(&page));
  OK(pw_close(file));
  RETURNS(PW_ERROR_HANDLE, pw_close(file));
  OK(pw_open(cache, path_in(argv[1], "file"), 0, NULL, &file));
  OK(pw_read(file, buf, 5, 0, &nr));
  CHECK(memcmp(buf, "saved", 5) == 0);
  OK(pw_close(file));

  OK(pw_queue_new(&queue));
  pw_test_panic();
  RETURNS(PW_ERROR_PANIC, pw_queue_run(queue, 1, 0, &nr));
  RETURNS(PW_ERROR_PANIC, pw_queue_run(queue, 1, 0, &nr));
  OK(pw_queue_close(queue));

  /* A call of no handle. */
  pw_test_panic();
  RETURNS(PW_ERROR_PANIC, pw_cache_new(NULL, &other));
  OK(pw_cache_new(NULL, &other));
  OK(pw_cache_close(other));

  pw_test_panic();
  RETURNS(PW_ERROR_PANIC, pw_cache_reclaim(cache, 1, NULL));
  RETURNS(PW_ERROR_PANIC, pw_open(cache, path_in(argv[1], "file"), 0, NULL, &file));
  OK(pw_cache_close(cache));
  return 0;
}
