/*
 * Children made by fork. The functions `row_...` are the rows of the table "Fork" in the header: each calls every
 * function of its row, which tests/header.rs checks.
 */

#include "check.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Whether the program is compiled with AddressSanitizer. */
#ifdef __SANITIZE_ADDRESS__
#define HAS_ASAN 1
#elif defined(__has_feature)
#define HAS_ASAN __has_feature(address_sanitizer)
#else
#define HAS_ASAN 0
#endif

enum { PAGE = 4096, PAGES = 4, LIMIT_S = 60 };

/* Objects of one process. */
struct objects {
  struct pw_cache_options *cache_options;
  struct pw_cache *cache;
  struct pw_open_options *open_options;
  struct pw_file *file;
  struct pw_queue *queue, *idle;
  struct pw_page page;
  struct pw_edit edit;
  struct pw_view view, changed;
  uint64_t request;
  char buf[10];
};

/* Calls of functions of the program, counted in memory that all processes share. */
static struct counts {
  atomic_int callbacks, hooks, releases;
} *counts;

static void completed(const struct pw_completion *completion, void *user) {
  (void)user;
  OK(completion->error);
  counts->callbacks++;
}

static int hook(void *user, uint64_t page, uint64_t lsn) {
  (void)user, (void)page, (void)lsn;
  counts->hooks++;
  return 0;
}

static void released(void *user) {
  (void)user;
  counts->releases++;
}

static int is_readable(struct pw_queue *queue) {
  struct pollfd event = {0, POLLIN, 0};
  OK(pw_queue_fd(queue, &event.fd));
  return poll(&event, 1, 0);
}

/* Whether threads or memory of other processes would be reported as faults of a child that exits. */
static int is_checked(void) {
  return HAS_ASAN || is_valgrind();
}

/* Ends a child: by another program, before which leaks are not searched, or by destructors of the library. */
static void end(void) {
  if (!is_checked())
    exit(0);
  execl("/bin/sh", "sh", "-c", ":", (char *)NULL);
  _exit(1);
}

static void await(pid_t child) {
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Returns the time after which a child is ended, in seconds. */
static unsigned limit_s(void) { return is_valgrind() ? 4 * LIMIT_S : LIMIT_S; }

static pid_t fork_child(void) {
  fflush(NULL);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0)
    alarm(limit_s());
  return child;
}

/* Creates objects, with dirty, pinned, edited and missing pages, and a request that is ready. */
static void create(struct objects *its, const char *path) {
  char buf[8];
  size_t nr;
  OK(pw_cache_options_new(&its->cache_options));
  choose_engine(its->cache_options);
  OK(pw_cache_new(its->cache_options, &its->cache));
  OK(pw_open_options_new(&its->open_options));
  OK(pw_open_options_set_before_write(its->open_options, hook, NULL, released));
  OK(pw_open(its->cache, path, PW_OPEN_CREATE | PW_OPEN_MANUAL, its->open_options, &its->file));
  OK(pw_set_size(its->file, PAGES * PAGE));
  OK(pw_advise(its->file, 0, 0, PW_ADVICE_RANDOM));
  OK(pw_write(its->file, "dirty", 5, 100, &nr));
  for (int i = 0; i < 3; i++) {
    OK(pw_read(its->file, buf, 5, 100, &nr));
    OK(pw_read(its->file, buf, 5, PAGE, &nr));
  }
  OK(pw_pin(its->file, 1, &its->page));
  OK(pw_edit_begin(its->file, 2, 0, &its->edit));
  OK(pw_view_begin(its->file, 0, &its->changed));
  OK(pw_write(its->file, "dirty", 5, 100, &nr));
  RETURNS(PW_ERROR_CHANGED, pw_view_validate(&its->changed));
  OK(pw_view_begin(its->file, 0, &its->view));
  OK(pw_queue_new(&its->queue));
  OK(pw_queue_new(&its->idle));
  OK(pw_submit_read(its->queue, its->file, its->buf, 5, 100, completed, NULL, &its->request));
  CHECK(is_readable(its->queue) && !is_readable(its->idle));
}

static void check_unchanged(struct objects *its, int callbacks) {
  struct pw_file_info info;
  struct pw_cache_stats stats;
  size_t nr;
  CHECK(counts->callbacks == callbacks && counts->hooks == 0 && counts->releases == 0);
  OK(pw_file_info(its->file, &info, sizeof info));
  CHECK(info.size == PAGES * PAGE && info.nr_dirty == 1);
  OK(pw_cache_stats(its->cache, &stats, sizeof stats));
  CHECK(stats.nr_unclean == 1 && stats.nr_evictions == 0);
  CHECK(is_readable(its->queue) && !is_readable(its->idle));
  OK(pw_queue_run(its->idle, 1, 100, &nr));
  CHECK(nr == 0);
  CHECK(its->page.size == PAGE && its->edit.data != NULL);
}

/* Ends everything that `create` has begun. */
static void finish(struct objects *its) {
  int callbacks = counts->callbacks, hooks = counts->hooks, releases = counts->releases;
  size_t nr;
  OK(pw_queue_run(its->queue, 10, 1000, &nr));
  CHECK(nr == 1 && counts->callbacks == callbacks + 1 && memcmp(its->buf, "dirty", 5) == 0);
  OK(pw_unpin(&its->page));
  memcpy(its->edit.data, "edited", 6);
  OK(pw_edit_commit(&its->edit, 0));
  OK(pw_sync_data(its->file));
  CHECK(counts->hooks == hooks + 2);
  OK(pw_close(its->file));
  OK(pw_open_options_free(its->open_options));
  CHECK(counts->releases == releases + 1);
  OK(pw_queue_close(its->idle));
  OK(pw_queue_close(its->queue));
  OK(pw_cache_close(its->cache));
  OK(pw_cache_options_free(its->cache_options));
}

static void row_use_no_object(void) {
  CHECK(strcmp(pw_version(), "") != 0);
  CHECK(strlen(pw_strerror(PW_ERROR_FORKED)) > 10);
  RETURNS(PW_ERROR_HANDLE, pw_close(NULL));
  CHECK(pw_last_code() == PW_ERROR_HANDLE && pw_last_errno() == EBADF);
  CHECK(strstr(pw_last_error(), "file") != NULL);
}

static void row_create_an_object(struct objects *parents, const char *path) {
  struct objects its;
  struct pw_cache_options *cache_options;
  struct pw_cache *cache;
  struct pw_open_options *open_options;
  struct pw_file *file;
  struct pw_queue *queue;
  counts->callbacks = counts->hooks = counts->releases = 0;
  create(&its, path);
  /* Objects of two processes. */
  RETURNS(PW_ERROR_FORKED, pw_cache_new(parents->cache_options, &cache));
  RETURNS(PW_ERROR_FORKED, pw_open(its.cache, path, PW_OPEN_WRITE, parents->open_options, &file));
  RETURNS(PW_ERROR_FORKED, pw_submit_read(its.queue, parents->file, its.buf, 1, 0, completed, NULL, NULL));
  RETURNS(PW_ERROR_FORKED, pw_submit_read(parents->queue, its.file, its.buf, 1, 0, completed, NULL, NULL));
  check_unchanged(&its, 0);
  finish(&its);
  /* Again, in the slots of the handles that were closed. */
  OK(pw_cache_options_new(&cache_options));
  choose_engine(cache_options);
  OK(pw_cache_new(cache_options, &cache));
  OK(pw_cache_options_free(cache_options));
  OK(pw_open_options_new(&open_options));
  OK(pw_open(cache, path, 0, open_options, &file));
  OK(pw_queue_new(&queue));
  OK(pw_open_options_free(open_options));
  OK(pw_queue_close(queue));
  OK(pw_close(file));
  OK(pw_cache_close(cache));
  counts->callbacks = counts->hooks = counts->releases = 0;
}

static void row_hits_only(struct objects *parents) {
  struct pw_read_request requests[2] = {{NULL, 5, 100, 0, 0}, {NULL, 5, 3 * PAGE, 0, 0}};
  char bufs[2][8], large[2 * PAGE];
  struct pw_view view;
  int64_t size;
  size_t nr;
  OK(pw_read(parents->file, bufs[0], 5, 100, &nr));
  CHECK(nr == 5 && memcmp(bufs[0], "dirty", 5) == 0);
  RETURNS(PW_ERROR_FORKED, pw_read(parents->file, bufs[0], 5, 3 * PAGE, &nr));
  RETURNS(PW_ERROR_FORKED, pw_read(parents->file, large, sizeof large, 0, &nr));
  memset(bufs, 0, sizeof bufs);
  requests[0].buf = bufs[0], requests[1].buf = bufs[1];
  RETURNS(PW_ERROR_FORKED, pw_read_many(parents->file, requests, 2));
  CHECK(requests[0].error == PW_OK && requests[0].nr_read == 5 && memcmp(bufs[0], "dirty", 5) == 0);
  CHECK(requests[1].error == PW_ERROR_FORKED && requests[1].nr_read == 0);
  OK(pw_read_many(parents->file, requests, 1));
  OK(pw_view_begin(parents->file, 0, &view));
  CHECK(view.size == PAGE && memcmp((const char *)view.data + 100, "dirty", 5) == 0);
  OK(pw_view_validate(&view));
  OK(pw_view_copy(&view, 100, bufs[1], 5));
  CHECK(memcmp(bufs[1], "dirty", 5) == 0);
  RETURNS(PW_ERROR_FORKED, pw_view_begin(parents->file, 3, &view));
  /* Views of before the fork: of an unchanged page, and of one that changed before the fork. */
  OK(pw_view_validate(&parents->view));
  OK(pw_view_copy(&parents->view, 100, bufs[1], 5));
  RETURNS(PW_ERROR_CHANGED, pw_view_validate(&parents->changed));
  RETURNS(PW_ERROR_CHANGED, pw_view_copy(&parents->changed, 100, bufs[1], 5));
  OK(pw_size(parents->file, &size));
  CHECK(size == PAGES * PAGE);
}

static void row_all_others(struct objects *parents) {
  struct refused its = {parents->cache_options, parents->cache, parents->open_options, parents->file, parents->queue,
                        parents->page,          parents->edit,  parents->request};
  all_others_refuse(PW_ERROR_FORKED, &its);
  CHECK(pw_last_errno() == EBADF && strstr(pw_last_error(), "cache") != NULL);
  its.queue = parents->idle;
  all_others_refuse(PW_ERROR_FORKED, &its);
}

/* All rows, in a child of the process of `parents`. */
static void all_rows(struct objects *parents, const char *own_path) {
  int callbacks = counts->callbacks;
  row_use_no_object();
  row_hits_only(parents);
  row_all_others(parents);
  /* Nothing was changed. */
  row_hits_only(parents);
  CHECK(counts->callbacks == callbacks && counts->hooks == 0 && counts->releases == 0);
  row_create_an_object(parents, own_path);
  row_hits_only(parents);
  row_all_others(parents);
}

static void children_and_their_children(const char *folder) {
  struct objects parents, childs;
  const char *path = path_in(folder, "parent");
  create(&parents, path);
  /* Two children, one after the other. */
  for (int i = 0; i < 2; i++) {
    pid_t child = fork_child();
    if (child == 0) {
      all_rows(&parents, path_in(folder, "child"));
      create(&childs, path_in(folder, "childs"));
      pid_t grandchild = fork_child();
      if (grandchild == 0) {
        all_rows(&parents, path_in(folder, "grandchild"));
        all_rows(&childs, path_in(folder, "grandchild"));
        end();
      }
      await(grandchild);
      check_unchanged(&childs, 0);
      finish(&childs);
      counts->callbacks = counts->hooks = counts->releases = 0;
      end();
    }
    await(child);
    check_unchanged(&parents, 0);
  }
  finish(&parents);
  FILE *file = fopen(path, "rb");
  char buf[8];
  CHECK(file != NULL && fseek(file, 100, SEEK_SET) == 0 && fread(buf, 1, 5, file) == 5);
  CHECK(memcmp(buf, "dirty", 5) == 0);
  CHECK(fseek(file, 0, SEEK_END) == 0 && ftell(file) == PAGES * PAGE);
  CHECK(fclose(file) == 0);
  counts->callbacks = counts->hooks = counts->releases = 0;
}

static struct objects callbacks_objects;

static void fork_in_a_callback(const struct pw_completion *completion, void *is_child) {
  OK(completion->error);
  pid_t child = fork_child();
  if (child == 0)
    *(int *)is_child = 1;
  else
    await(child);
}

/* The child returns from the callback, and calls no other. */
static void fork_in_callbacks(const char *folder, size_t max) {
  struct objects *its = &callbacks_objects;
  int is_child = 0;
  char buf[8];
  size_t nr;
  create(its, path_in(folder, "callbacks"));
  OK(pw_submit_read(its->idle, its->file, buf, 5, 100, fork_in_a_callback, &is_child, NULL));
  OK(pw_submit_read(its->idle, its->file, buf, 5, 100, completed, NULL, NULL));
  int error = pw_queue_run(its->idle, max, 1000, &nr);
  if (is_child) {
    RETURNS(PW_ERROR_FORKED, error);
    RETURNS(PW_ERROR_FORKED, pw_queue_run(its->idle, 10, -1, &nr));
    CHECK(counts->callbacks == 0);
    end();
  }
  OK(error);
  CHECK(nr == max);
  if (max == 1)
    OK(pw_queue_run(its->idle, 1, 1000, &nr));
  check_unchanged(its, 1);
  finish(its);
  counts->callbacks = counts->hooks = counts->releases = 0;
}

static atomic_int is_over;
static struct pw_cache *shared;
static const char *shared_path;

static void open_pin_close(struct pw_cache *cache, const char *path) {
  struct pw_open_options *options;
  struct pw_file *file;
  struct pw_page page;
  for (int i = 0; i < 20; i++) {
    OK(pw_open_options_new(&options));
    OK(pw_open_options_free(options));
  }
  OK(pw_open(cache, path, 0, NULL, &file));
  OK(pw_pin(file, 0, &page));
  OK(pw_unpin(&page));
  OK(pw_close(file));
}

static void *once(void *unused) {
  (void)unused;
  open_pin_close(shared, shared_path);
  return NULL;
}

static void *threads_come_and_go(void *unused) {
  pthread_t thread;
  (void)unused;
  while (!is_over) {
    CHECK(pthread_create(&thread, NULL, once, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
  }
  return NULL;
}

/*
 * A child waits for no lock of a thread that exists only in its parent. Not with AddressSanitizer, whose children wait
 * for such locks of the sanitizer, and not under valgrind, where it takes minutes.
 */
static void fork_beside_threads(const char *folder) {
  pthread_t threads[2], thread;
  shared_path = make_file(folder, "shared", PAGE);
  OK(new_cache(&shared));
  for (int i = 0; i < 2; i++)
    CHECK(pthread_create(&threads[i], NULL, threads_come_and_go, NULL) == 0);
  for (int i = 0; i < 200; i++) {
    pid_t child = fork_child();
    if (child == 0) {
      OK(new_cache(&shared));
      CHECK(pthread_create(&thread, NULL, once, NULL) == 0);
      once(NULL);
      CHECK(pthread_join(thread, NULL) == 0);
      OK(pw_cache_close(shared));
      end();
    }
    await(child);
  }
  is_over = 1;
  for (int i = 0; i < 2; i++)
    CHECK(pthread_join(threads[i], NULL) == 0);
  OK(pw_cache_close(shared));
}

static struct pw_file *written;
static char *source;
static atomic_int is_copying, may_copy;

/* Lets the thread that copies from `source` wait in the middle. */
static void stop_the_copy(int number, siginfo_t *info, void *context) {
  uintptr_t offset = (uintptr_t)info->si_addr - (uintptr_t)source;
  (void)context;
  if (offset < PAGE || offset >= 2 * PAGE) {
    /* Another fault, which occurs again and ends the program. */
    signal(number, SIG_DFL);
    return;
  }
  is_copying = 1;
  while (!may_copy)
    sched_yield();
  CHECK(mprotect(source + PAGE, PAGE, PROT_READ | PROT_WRITE) == 0);
}

static void *write_source(void *unused) {
  size_t nr;
  (void)unused;
  OK(pw_write(written, source + PAGE / 2, PAGE, 0, &nr));
  return NULL;
}

/* A page that a thread was changing at the fork does not change further: the child need not try again. */
static void fork_during_a_write(const char *folder) {
  struct sigaction action, before;
  struct pw_cache *cache;
  struct pw_view view;
  pthread_t thread;
  char buf[8];
  size_t nr;
  OK(new_cache(&cache));
  OK(pw_open(cache, path_in(folder, "written"), PW_OPEN_CREATE | PW_OPEN_MANUAL, NULL, &written));
  OK(pw_set_size(written, PAGE));
  OK(pw_read(written, buf, 5, 0, &nr));
  OK(pw_view_begin(written, 0, &view));
  source = (char *)mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(source != MAP_FAILED);
  CHECK(mprotect(source + PAGE, PAGE, PROT_NONE) == 0);
  memset(&action, 0, sizeof action);
  action.sa_sigaction = stop_the_copy;
  action.sa_flags = SA_SIGINFO;
  CHECK(sigaction(SIGSEGV, &action, &before) == 0);
  CHECK(pthread_create(&thread, NULL, write_source, NULL) == 0);
  while (!is_copying)
    sched_yield();
  RETURNS(PW_ERROR_CHANGING, pw_view_validate(&view));
  pid_t child = fork_child();
  if (child == 0) {
    RETURNS(PW_ERROR_FORKED, pw_view_validate(&view));
    RETURNS(PW_ERROR_FORKED, pw_view_copy(&view, 0, buf, 5));
    RETURNS(PW_ERROR_FORKED, pw_view_begin(written, 0, &view));
    RETURNS(PW_ERROR_FORKED, pw_read(written, buf, 5, 0, &nr));
    end();
  }
  await(child);
  may_copy = 1;
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(sigaction(SIGSEGV, &before, NULL) == 0);
  RETURNS(PW_ERROR_CHANGED, pw_view_validate(&view));
  CHECK(munmap(source, 2 * PAGE) == 0);
  OK(pw_close(written));
  OK(pw_cache_close(cache));
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  alarm(4 * limit_s());
  counts = (struct counts *)mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(counts != MAP_FAILED);
  children_and_their_children(argv[1]);
  fork_in_callbacks(argv[1], 1);
  fork_in_callbacks(argv[1], 2);
  if (!is_checked())
    fork_beside_threads(argv[1]);
  fork_during_a_write(argv[1]);
  return 0;
}
