/* Calls every function of the header, and checks what it does. */

#include "check.h"

#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>

static unsigned char buf[70000], again[70000];

static void options_and_caches(const char *folder) {
  struct pw_cache_options *options;
  struct pw_cache *cache;
  struct pw_cache_stats stats;
  char why[80];
  int engine;
  size_t nr;

  CHECK(strcmp(pw_version(), "0.1.0") == 0);
  CHECK(strcmp(pw_strerror(PW_OK), "no error") == 0);
  CHECK(pw_last_code() == 0 && pw_last_errno() == 0);
  CHECK(strcmp(pw_last_error(), "no error") == 0);

  OK(pw_cache_options_new(&options));
  OK(pw_cache_options_set_capacity(options, 16 << 20));
  OK(pw_cache_options_set_page_size(options, 8192));
  OK(pw_cache_options_set_huge_pages(options, PW_HUGE_PAGES_NEVER));
  OK(pw_cache_options_set_dirty_limit(options, 8 << 20));
  OK(pw_cache_options_set_max_dirty_age(options, 1000));
  OK(pw_cache_options_set_stall_timeout(options, 1000));
  OK(pw_cache_options_set_close_timeout(options, 100));
  OK(pw_cache_options_set_engine(options, PW_ENGINE_WORKER));
  OK(pw_cache_new(options, &cache));
  OK(pw_cache_options_free(options));

  OK(pw_cache_engine(cache, &engine, why, sizeof why));
  CHECK(engine == PW_ENGINE_WORKER && strcmp(why, "asked for") == 0);
  OK(pw_cache_engine(cache, &engine, why, 3));
  CHECK(strcmp(why, "as") == 0);
  OK(pw_cache_engine(cache, &engine, NULL, 0));

  /* A structure of an older header, and one of a newer. */
  OK(pw_cache_stats(cache, &stats, sizeof stats));
  CHECK(stats.nr_frames > 3000 && stats.nr_fills == 0);
  memset(buf, 0xff, 128);
  OK(pw_cache_stats(cache, (struct pw_cache_stats *)(void *)buf, 8));
  CHECK(memcmp(buf, &stats.nr_frames, 8) == 0 && buf[8] == 0xff);
  OK(pw_cache_stats(cache, (struct pw_cache_stats *)(void *)buf, 64));
  CHECK(buf[63] == 0 && buf[64] == 0xff);

  struct pw_open_options *how;
  struct pw_file *file, *private_file;
  struct pw_file_info info;
  struct stat status;
  char path[4096];
  OK(pw_open_options_new(&how));
  OK(pw_open_options_set_page_size(how, 16384));
  OK(pw_open(cache, make_file(folder, "file", 40000), 0, how, &file));
  OK(pw_open_options_free(how));
  OK(pw_open_options_new(&how));
  OK(pw_open_options_set_mode(how, 0600));
  snprintf(path, sizeof path, "%s/private", folder);
  OK(pw_open(cache, path, PW_OPEN_CREATE_NEW, how, &private_file));
  OK(pw_open_options_free(how));
  CHECK(stat(path, &status) == 0 && (status.st_mode & 0777) == 0600);
  OK(pw_close(private_file));
  OK(pw_file_info(file, &info, sizeof info));
  CHECK(info.size == 40000 && info.page_size == 16384 && info.direct_alignment == 0 && info.oldest_lsn == UINT64_MAX);
  OK(pw_read(file, buf, 10, 20000, &nr));
  CHECK(nr == 10 && buf[0] == 20000 % 251);
  OK(pw_cache_reclaim(cache, 100, &nr));
  CHECK(nr != 0);
  OK(pw_close(file));
  OK(pw_cache_close(cache));
}

static void reads(struct pw_cache *cache, const char *folder) {
  struct pw_file *file, *other;
  struct pw_page page, copy;
  struct pw_view view;
  size_t nr;
  int64_t size;

  OK(pw_open(cache, make_file(folder, "read", 20000), 0, NULL, &file));
  for (int i = 0; i < 3; i++) {
    OK(pw_read(file, buf, 6000, 3000, &nr));
    CHECK(nr == 6000);
    for (size_t at = 0; at < nr; at++)
      CHECK(buf[at] == (3000 + at) % 251);
  }
  OK(pw_read(file, buf, 100, 19950, &nr));
  CHECK(nr == 50);
  OK(pw_read(file, buf, 100, 20000, &nr));
  CHECK(nr == 0);
  OK(pw_read(file, NULL, 0, 0, &nr));
  CHECK(nr == 0);
  OK(pw_size(file, &size));
  CHECK(size == 20000);
  OK(pw_refresh(file, &size));
  CHECK(size == 20000);
  OK(pw_refresh(file, NULL));

  struct pw_read_request many[3] = {
      {buf + 200, 100, 8000, 0, -1}, {buf, 200, 0, 0, -1}, {buf + 300, 100, 19999, 0, -1}};
  OK(pw_read_many(file, many, 3));
  CHECK(many[0].nr_read == 100 && many[1].nr_read == 200 && many[2].nr_read == 1);
  CHECK(many[0].error == PW_OK && buf[200] == 8000 % 251 && buf[1] == 1 && buf[300] == 19999 % 251);
  OK(pw_read_many(file, NULL, 0));

  OK(pw_dup(file, &other));
  /* Often enough that pins are announced. */
  for (int i = 0; i < 1000; i++) {
    OK(pw_pin(other, 4, &page));
    CHECK(page.size == 20000 - 4 * 4096 && page.page == 4 && *(const unsigned char *)page.data == 16384 % 251);
    copy = page;
    RETURNS(PW_ERROR_BUSY, pw_close(other));
    OK(pw_unpin(&page));
    CHECK(page.data == NULL && page.size == 0);
    RETURNS(PW_ERROR_HANDLE, pw_unpin(&page));
    RETURNS(PW_ERROR_HANDLE, pw_unpin(&copy));
  }
  RETURNS(PW_ERROR_OUT_OF_RANGE, pw_pin(other, 5, &page));
  CHECK(pw_last_errno() == ENXIO && pw_last_code() == PW_ERROR_OUT_OF_RANGE);
  CHECK(strstr(pw_last_error(), path_in(folder, "read")) != NULL);
  OK(pw_close(other));

  OK(pw_view_begin(file, 1, &view));
  CHECK(view.size == 4096 && view.page == 1 && view.file == file);
  CHECK(__atomic_load_n((const unsigned char *)view.data, __ATOMIC_RELAXED) == 4096 % 251);
  OK(pw_view_validate(&view));
  OK(pw_view_copy(&view, 4000, buf, 96));
  CHECK(buf[95] == 8191 % 251);
  RETURNS(PW_ERROR_ARGUMENT, pw_view_copy(&view, 4001, buf, 96));
  RETURNS(PW_ERROR_ARGUMENT, pw_view_copy(&view, SIZE_MAX, buf, 2));
  OK(pw_invalidate(file, 4096, 1));
  RETURNS(PW_ERROR_CHANGED, pw_view_validate(&view));
  RETURNS(PW_ERROR_CHANGED, pw_view_copy(&view, 0, buf, 1));

  for (int advice = PW_ADVICE_NORMAL; advice <= PW_ADVICE_NOT_SOON; advice++)
    OK(pw_advise(file, 0, 0, advice));
  struct pw_range ranges[2] = {{0, 1}, {12288, 0}};
  OK(pw_prefetch(file, ranges, 2, &nr));
  CHECK(nr <= 3);
  OK(pw_prefetch(file, NULL, 0, NULL));
  OK(pw_read(file, buf, 1, 0, &nr));
  OK(pw_cache_reclaim(cache, 100, &nr));
  CHECK(nr >= 1);
  OK(pw_cache_reclaim(cache, 1, NULL));
  OK(pw_close(file));
  RETURNS(PW_ERROR_HANDLE, pw_view_validate(&view));
}

struct seen {
  int calls, released, refuse;
  uint64_t lsn;
  pthread_mutex_t lock;
};

static int before_write(void *user, uint64_t page, uint64_t lsn) {
  struct seen *seen = (struct seen *)user;
  (void)page;
  pthread_mutex_lock(&seen->lock);
  int refuse = seen->refuse;
  seen->calls++;
  if (lsn > seen->lsn)
    seen->lsn = lsn;
  pthread_mutex_unlock(&seen->lock);
  return refuse;
}

static void released(void *user) { ((struct seen *)user)->released++; }

/* Hooks on bytes: pages are stored inverted, each with its number at the end, which is zeros to the program. */
enum { BODY = 4096 - 8 };

struct bytes {
  int refuse;
  int refuse_holes;
  int written;
  int read;
  int holes;
  int released;
  uint64_t lsn;
  size_t nr_used;
  /* To be closed by the hook, in vain. */
  struct pw_file *file;
  pthread_mutex_t lock;
};

static void invert(unsigned char *bytes) {
  for (int i = 0; i < BODY; i++)
    bytes[i] ^= 0xff;
}

static int invert_before(void *user, const struct pw_outgoing_page *pages, size_t count) {
  struct bytes *seen = (struct bytes *)user;
  pthread_mutex_lock(&seen->lock);
  int refuse = seen->refuse;
  for (size_t i = 0; i < count && !refuse; i++) {
    CHECK(pages[i].size == 4096 && pages[i].nr_used <= 4096 && pages[i].nr_used != 0);
    CHECK(i == 0 || pages[i].page == pages[i - 1].page + 1);
    invert((unsigned char *)pages[i].data);
    memcpy((char *)pages[i].data + BODY, &pages[i].page, 8);
    if (pages[i].lsn > seen->lsn)
      seen->lsn = pages[i].lsn;
    seen->nr_used = pages[i].nr_used;
    seen->written++;
  }
  pthread_mutex_unlock(&seen->lock);
  return refuse;
}

static int invert_after(void *user, uint64_t page, void *data, size_t size) {
  struct bytes *seen = (struct bytes *)user;
  unsigned char *bytes = (unsigned char *)data;
  CHECK(size == 4096);
  pthread_mutex_lock(&seen->lock);
  seen->read++;
  if (seen->file != NULL)
    RETURNS(PW_ERROR_BUSY, pw_close(seen->file));
  pthread_mutex_unlock(&seen->lock);
  if (memcmp(bytes + BODY, &page, 8) != 0)
    return EBADMSG;
  /* One that a test has made so. */
  if (bytes[0] == 1)
    return -5;
  invert(bytes);
  memset(bytes + BODY, 0, 8);
  return 0;
}

static int hole(void *user, uint64_t page) {
  struct bytes *seen = (struct bytes *)user;
  (void)page;
  pthread_mutex_lock(&seen->lock);
  seen->holes++;
  int refuse = seen->refuse_holes;
  pthread_mutex_unlock(&seen->lock);
  return refuse;
}

static void bytes_released(void *user) { ((struct bytes *)user)->released++; }

/* Puts a byte into a file, behind the cache's back; what was there. */
static int put_byte(const char *path, long offset, int byte) {
  FILE *file = fopen(path, "r+b");
  CHECK(file != NULL && fseek(file, offset, SEEK_SET) == 0);
  int before = fgetc(file);
  CHECK(before != EOF && fseek(file, offset, SEEK_SET) == 0 && fputc(byte, file) != EOF && fclose(file) == 0);
  return before;
}

static void hooks_on_bytes(struct pw_cache *cache, const char *folder) {
  struct bytes seen = {0, 0, 0, 0, 0, 0, 0, 0, NULL, PTHREAD_MUTEX_INITIALIZER};
  struct pw_open_options *how;
  struct pw_file *file, *other;
  struct pw_page page;
  struct pw_view view;
  size_t nr;
  char got[20];
  char *path = strdup(path_in(folder, "hooked"));

  OK(pw_open_options_new(&how));
  OK(pw_open_options_set_page_hooks(how, invert_before, invert_after, hole, &seen, bytes_released));
  OK(pw_open(cache, path, PW_OPEN_CREATE_NEW | PW_OPEN_MANUAL, how, &file));
  OK(pw_write_lsn(file, "page 0", 6, 0, 7, &nr));
  OK(pw_write(file, "page 1", 6, 4096, &nr));
  /* Page 2 is one that nobody has written, page 3 the last. */
  OK(pw_write(file, "page 3", 6, 3 * 4096, &nr));
  OK(pw_sync_data(file));
  CHECK(seen.written >= 3 && seen.lsn == 7 && seen.nr_used == 6);
  /* What is stored is something else, and in whole pages; what is read is what was written. */
  CHECK(put_byte(path, 0, 'p' ^ 0xff) == ('p' ^ 0xff));
  CHECK(put_byte(path, 3 * 4096 + BODY, 3) == 3);
  OK(pw_invalidate(file, 0, 0));
  seen.file = file;
  OK(pw_read(file, got, 20, 3 * 4096, &nr));
  seen.file = NULL;
  CHECK(nr == 6 && memcmp(got, "page 3", 6) == 0);
  OK(pw_read(file, got, 20, 0, &nr));
  CHECK(nr == 20 && memcmp(got, "page 0", 7) == 0 && seen.read >= 2);
  OK(pw_read(file, got, 6, 2 * 4096, &nr));
  CHECK(memcmp(got, "\0\0\0\0\0\0", 6) == 0 && seen.holes >= 1);

  /* A bit is another one below: who wants the page is told, whichever way; others are not. */
  int number = put_byte(path, 4096 + BODY, 1 ^ 4);
  CHECK(number == 1);
  OK(pw_invalidate(file, 0, 0));
  RETURNS(PW_ERROR_CORRUPT, pw_read(file, got, 6, 4096, &nr));
  CHECK(pw_last_errno() == EBADMSG && strstr(pw_last_error(), "page 1") != NULL);
  RETURNS(PW_ERROR_CORRUPT, pw_pin(file, 1, &page));
  RETURNS(PW_ERROR_CORRUPT, pw_view_begin(file, 1, &view));
  RETURNS(PW_ERROR_CORRUPT, pw_write(file, "X", 1, 4096, &nr));
  struct pw_read_request many[2] = {{got, 6, 0, 0, 0}, {got + 6, 6, 4096, 0, 0}};
  RETURNS(PW_ERROR_CORRUPT, pw_read_many(file, many, 2));
  CHECK(many[0].error == PW_OK && many[0].nr_read == 6 && many[1].error == PW_ERROR_CORRUPT);
  OK(pw_pin(file, 0, &page));
  OK(pw_unpin(&page));
  /* Nothing is remembered. */
  put_byte(path, 4096 + BODY, number);
  OK(pw_read(file, got, 6, 4096, &nr));
  CHECK(memcmp(got, "page 1", 6) == 0);
  /* What is no errno is an error as well. */
  int first = put_byte(path, 4096, 1);
  OK(pw_invalidate(file, 0, 0));
  RETURNS(PW_ERROR_CORRUPT, pw_read(file, got, 6, 4096, &nr));
  CHECK(strstr(pw_last_error(), "the callback returned -5") != NULL);
  put_byte(path, 4096, first);
  /* A hole that is refused. */
  seen.refuse_holes = ENODATA;
  RETURNS(PW_ERROR_CORRUPT, pw_read(file, got, 6, 2 * 4096, &nr));
  CHECK(pw_last_errno() == ENODATA);
  seen.refuse_holes = 0;

  /* A page that is refused on its way out stays dirty. */
  seen.refuse = ECANCELED;
  OK(pw_write(file, "PAGE", 4, 0, &nr));
  RETURNS(PW_ERROR_REFUSED, pw_sync_data(file));
  CHECK(pw_last_errno() == ECANCELED);
  seen.refuse = 0;
  OK(pw_sync_data(file));

  /* The same hooks, or none, but no others. */
  OK(pw_open(cache, path, PW_OPEN_WRITE, how, &other));
  OK(pw_close(other));
  OK(pw_open_options_set_page_hooks(how, invert_before, invert_after, NULL, &seen, bytes_released));
  CHECK(seen.released == 0);
  RETURNS(PW_ERROR_OPTIONS_MISMATCH, pw_open(cache, path, PW_OPEN_WRITE, how, &other));
  OK(pw_open_options_set_page_hooks(how, NULL, NULL, NULL, NULL, NULL));
  CHECK(seen.released == 1);
  OK(pw_open_options_free(how));
  OK(pw_close(file));
  CHECK(seen.released == 2);
  free(path);
}

static void writes(struct pw_cache *cache, const char *folder) {
  struct seen seen = {0, 0, 0, 0, PTHREAD_MUTEX_INITIALIZER};
  struct pw_open_options *how;
  struct pw_file *file, *other;
  struct pw_file_info info;
  struct pw_view view;
  struct pw_page page;
  struct pw_edit edit, another;
  int64_t offset, size;
  size_t nr;

  OK(pw_open_options_new(&how));
  OK(pw_open_options_set_before_write(how, before_write, &seen, released));
  OK(pw_open(cache, path_in(folder, "written"), PW_OPEN_CREATE_NEW | PW_OPEN_MANUAL, how, &file));
  RETURNS(PW_ERROR_EXISTS, pw_open(cache, path_in(folder, "written"), PW_OPEN_CREATE_NEW, how, &other));
  CHECK(pw_last_errno() == EEXIST && strstr(pw_last_error(), "exist") != NULL);
  OK(pw_open(cache, path_in(folder, "written"), PW_OPEN_WRITE, how, &other));
  OK(pw_close(other));

  for (size_t i = 0; i < sizeof buf; i++)
    buf[i] = (unsigned char)(i % 7);
  OK(pw_write(file, buf, 10000, 0, &nr));
  CHECK(nr == 10000);
  OK(pw_write_lsn(file, buf, 10, 5, 77, &nr));
  OK(pw_append(file, "tail", 4, &offset));
  CHECK(offset == 10000);
  OK(pw_append(file, "tail", 4, NULL));
  OK(pw_append_lsn(file, "end", 3, 78, &offset));
  CHECK(offset == 10008);
  OK(pw_file_info(file, &info, sizeof info));
  CHECK(info.size == 10011 && info.nr_dirty == 3 && info.oldest_lsn <= 77);

  /* A view sees the change, a pin does not. */
  OK(pw_view_begin(file, 0, &view));
  OK(pw_pin(file, 0, &page));
  OK(pw_write(file, "X", 1, 0, &nr));
  RETURNS(PW_ERROR_CHANGED, pw_view_validate(&view));
  CHECK(*(const char *)page.data == 0);
  OK(pw_unpin(&page));

  seen.refuse = ECANCELED;
  RETURNS(PW_ERROR_REFUSED, pw_sync_data(file));
  CHECK(pw_last_errno() == ECANCELED);
  seen.refuse = 0;
  OK(pw_sync_range(file, 0, 4096));
  OK(pw_flush(file, 0, 0, &nr));
  CHECK(nr <= 2);
  OK(pw_flush(file, 0, 0, NULL));
  OK(pw_sync_data(file));
  CHECK(seen.calls > 0 && seen.lsn == 78);
  OK(pw_write(file, "Y", 1, 4096, &nr));
  OK(pw_write(file, "Z", 1, 8192, &nr));
  OK(pw_sync_all(file));
  OK(pw_write(file, "lost", 4, 100, &nr));
  OK(pw_discard(file, 0, 4096));
  OK(pw_read(file, again, 4, 100, &nr));
  CHECK(memcmp(again, buf + 100, 4) == 0);
  OK(pw_set_size(file, 5000));
  OK(pw_size(file, &size));
  CHECK(size == 5000);

  OK(pw_edit_begin(file, 0, 0, &edit));
  CHECK(edit.size == 4096 && edit.page == 0);
  RETURNS(PW_ERROR_LOCKED, pw_edit_begin(file, 0, PW_EDIT_TRY, &another));
  RETURNS(PW_ERROR_DEADLOCK, pw_edit_begin(file, 0, 0, &another));
  RETURNS(PW_ERROR_BUSY, pw_close(file));
  memcpy(edit.data, "edited", 6);
  OK(pw_read(file, again, 6, 0, &nr));
  CHECK(memcmp(again, "edited", 6) != 0);
  OK(pw_edit_publish(&edit, 100));
  OK(pw_read(file, again, 6, 0, &nr));
  CHECK(memcmp(again, "edited", 6) == 0);
  RETURNS(PW_ERROR_ARGUMENT, pw_edit_publish(&edit, 100));
  RETURNS(PW_ERROR_ARGUMENT, pw_edit_cancel(&edit));
  another = edit;
  OK(pw_edit_commit(&edit, 0));
  CHECK(edit.data == NULL);
  RETURNS(PW_ERROR_HANDLE, pw_edit_commit(&edit, 0));
  RETURNS(PW_ERROR_HANDLE, pw_edit_commit(&another, 0));
  OK(pw_edit_begin(file, 1, PW_EDIT_TRY, &edit));
  memset(edit.data, 'n', edit.size);
  OK(pw_edit_cancel(&edit));
  OK(pw_read(file, again, 1, 4096, &nr));
  CHECK(again[0] == 'Y');
  OK(pw_edit_begin(file, 1, 0, &edit));
  memset(edit.data, 'y', edit.size);
  OK(pw_edit_commit(&edit, 101));
  OK(pw_read(file, again, 1, 4999, &nr));
  CHECK(nr == 1 && again[0] == 'y');

  OK(pw_close(file));
  CHECK(seen.released == 0);
  OK(pw_open_options_free(how));
  CHECK(seen.released == 1);
}

struct done {
  int calls;
  struct pw_completion last;
};

static void done(const struct pw_completion *completion, void *user) {
  struct done *done = (struct done *)user;
  done->calls++;
  done->last = *completion;
}

static void run_until(struct pw_queue *queue, struct done *of, int calls) {
  while (of->calls < calls) {
    size_t nr;
    OK(pw_queue_run(queue, 1, 10000, &nr));
    CHECK(nr == 1);
  }
}

static void requests(struct pw_cache *cache, const char *folder) {
  struct pw_queue *queue;
  struct pw_file *file;
  struct done of = {0, {0, 0, 0, 0, 0, {NULL, 0, 0, {0, 0}}}};
  uint64_t request;
  size_t nr;
  int fd;

  OK(pw_queue_new(&queue));
  OK(pw_queue_fd(queue, &fd));
  struct pollfd event = {fd, POLLIN, 0};
  CHECK(poll(&event, 1, 0) == 0);
  OK(pw_queue_run(queue, 10, 0, &nr));
  CHECK(nr == 0);
  OK(pw_open(cache, make_file(folder, "requests", 30000), PW_OPEN_WRITE, NULL, &file));

  OK(pw_submit_read(queue, file, buf, 10000, 5000, done, &of, &request));
  RETURNS(PW_ERROR_BUSY, pw_close(file));
  RETURNS(PW_ERROR_BUSY, pw_queue_close(queue));
  CHECK(poll(&event, 1, 10000) == 1);
  run_until(queue, &of, 1);
  CHECK(of.last.request == request && of.last.error == PW_OK && of.last.size == 10000 && of.last.offset == 5000);
  CHECK(buf[0] == 5000 % 251 && buf[9999] == 14999 % 251);
  CHECK(poll(&event, 1, 0) == 0);
  RETURNS(PW_ERROR_HANDLE, pw_queue_cancel(queue, request));

  OK(pw_submit_write(queue, file, "hello", 5, 10, done, &of, &request));
  run_until(queue, &of, 2);
  CHECK(of.last.error == PW_OK && of.last.size == 5);
  OK(pw_submit_append(queue, file, "tail", 4, done, &of, NULL));
  run_until(queue, &of, 3);
  CHECK(of.last.error == PW_OK && of.last.size == 4 && of.last.offset == 30000);
  OK(pw_submit_sync_data(queue, file, done, &of, NULL));
  run_until(queue, &of, 4);
  CHECK(of.last.error == PW_OK);
  OK(pw_submit_pin(queue, file, 0, done, &of, NULL));
  run_until(queue, &of, 5);
  CHECK(of.last.error == PW_OK && memcmp((const char *)of.last.page.data + 10, "hello", 5) == 0);
  RETURNS(PW_ERROR_BUSY, pw_close(file));
  OK(pw_unpin(&of.last.page));
  OK(pw_submit_pin(queue, file, 100, done, &of, NULL));
  run_until(queue, &of, 6);
  CHECK(of.last.error == PW_ERROR_OUT_OF_RANGE && of.last.error_errno == ENXIO && of.last.page.data == NULL);

  /* Either it is canceled, or done; there is one callback. */
  OK(pw_invalidate(file, 0, 0));
  OK(pw_submit_read(queue, file, buf, 20000, 0, done, &of, &request));
  int canceled = pw_queue_cancel(queue, request);
  CHECK(canceled == PW_OK || canceled == PW_ERROR_HANDLE);
  run_until(queue, &of, 7);
  CHECK(of.last.request == request && of.last.error == (canceled == PW_OK ? PW_ERROR_CANCELED : PW_OK));
  OK(pw_queue_run(queue, 10, 0, NULL));
  CHECK(of.calls == 7);
  OK(pw_close(file));
  OK(pw_queue_close(queue));
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  struct pw_cache *cache;
  options_and_caches(argv[1]);
  OK(new_cache(&cache));
  reads(cache, argv[1]);
  writes(cache, argv[1]);
  hooks_on_bytes(cache, argv[1]);
  requests(cache, argv[1]);
  OK(pw_cache_close(cache));
  return 0;
}
