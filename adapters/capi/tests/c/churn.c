/*
 * Threads and processes open, use, close, delete, rename, fork, exec and exit; a seed decides. After each history the
 * process has as many threads and descriptors as before, no file is locked, and memory has not grown.
 *
 *     churn FOLDER [SEED [SECONDS]]
 *
 * A failure prints the seed, which repeats the operations of each thread but not their interleaving.
 */

#include "check.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PROCESSES = 2, THREADS = 3, STEPS = 60, FILES = 6, PAGE = 4096, LIMIT_S = 60, MAX_GROWTH_PAGES = 8192 };

/* splitmix64 */
static uint64_t next(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

static uint64_t below(uint64_t *state, uint64_t end) { return next(state) % end; }

/* State that the threads of a history share. */
static struct {
  const char *own, *common;
  struct pw_cache *cache;
  struct pw_queue *queue;
  _Atomic(struct pw_file *) files[FILES];
  atomic_int nr_submitted, nr_completed, nr_children, is_over;
} now;

/* The condition that this process waits for, for the message of a history that hangs. */
static const char *volatile awaited = "the end of a call or thread";

static void on_alarm(int number) {
  (void)number;
  (void)!write(STDERR_FILENO, "hangs, waiting for: ", 20);
  (void)!write(STDERR_FILENO, awaited, strlen(awaited));
  (void)!write(STDERR_FILENO, "\n", 1);
  _exit(1);
}

#define AWAIT(condition)                                                                                               \
  do {                                                                                                                 \
    const char *before_ = awaited;                                                                                     \
    awaited = #condition;                                                                                              \
    while (!(condition))                                                                                               \
      usleep(1000);                                                                                                    \
    awaited = before_;                                                                                                 \
  } while (0)

/* Every byte of a file is 0 or this. */
static char byte_at(int64_t offset) { return (char)(1 + offset % 251); }

static void check_bytes(const char *bytes, size_t size, int64_t offset) {
  for (size_t i = 0; i < size; i++)
    CHECK(bytes[i] == 0 || bytes[i] == byte_at(offset + (int64_t)i));
}

/* Whether a call with a handle that other threads close has an expected result. */
static int is_expected(int error) {
  return error == PW_OK || error == PW_ERROR_HANDLE || error == PW_ERROR_BUSY || error == PW_ERROR_READ_ONLY ||
         error == PW_ERROR_OUT_OF_RANGE || error == PW_ERROR_TRUNCATED || error == PW_ERROR_OPEN_ELSEWHERE ||
         error == PW_ERROR_NOT_FOUND || error == PW_ERROR_LOCKED || error == PW_ERROR_CHANGED ||
         error == PW_ERROR_CHANGING || error == PW_ERROR_OUT_OF_FRAMES || error == PW_ERROR_THROTTLED ||
         error == PW_ERROR_OPTIONS_MISMATCH;
}

#define EXPECTED(call)                                                                                                 \
  do {                                                                                                                 \
    int expected_ = (call);                                                                                            \
    if (!is_expected(expected_))                                                                                       \
      RETURNS(PW_OK, expected_);                                                                                       \
  } while (0)

static void path_of(uint64_t *state, char *path, size_t size) {
  const char *folder = below(state, 4) == 0 ? now.common : now.own;
  snprintf(path, size, "%s/%d", folder, (int)below(state, FILES));
}

static void completed(const struct pw_completion *completion, void *buf) {
  struct pw_page page = completion->page;
  CHECK(is_expected(completion->error) || completion->error == PW_ERROR_CANCELED);
  if (page.data != NULL)
    OK(pw_unpin(&page));
  free(buf);
  now.nr_completed++;
}

static int accept_pages(void *user, uint64_t page, uint64_t lsn) {
  (void)user, (void)page, (void)lsn;
  return 0;
}

/* Uses the options that release it. */
static void release(void *options) { OK(pw_open_options_set_mode((struct pw_open_options *)options, 0644)); }

static void change_options(uint64_t *state) {
  struct pw_open_options *options;
  struct pw_file *file;
  char path[4200];
  OK(pw_open_options_new(&options));
  OK(pw_open_options_set_before_write(options, accept_pages, options, release));
  OK(pw_open_options_set_before_write(options, accept_pages, options, below(state, 2) ? release : NULL));
  OK(pw_open_options_set_before_write(options, accept_pages, NULL, NULL));
  path_of(state, path, sizeof path);
  int error = pw_open(now.cache, path, PW_OPEN_CREATE, options, &file);
  EXPECTED(error);
  if (error == PW_OK)
    while ((error = pw_close(file)) != PW_OK)
      EXPECTED(error);
  OK(pw_open_options_free(options));
}

static void *run_until_cancelled(void *is_running) {
  size_t nr;
  *(atomic_int *)is_running = 1;
  for (;;) {
    OK(pw_queue_run(now.queue, 4, 5, &nr));
    pthread_testcancel();
  }
  return NULL;
}

static void cancel_a_thread(void) {
  pthread_t thread;
  void *result;
  atomic_int is_running = 0;
  CHECK(pthread_create(&thread, NULL, run_until_cancelled, &is_running) == 0);
  AWAIT(is_running);
  CHECK(pthread_cancel(thread) == 0);
  CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
}

/* A child uses objects of its parent, then its own, and ends in one of several ways. */
static void child(uint64_t state) {
  struct pw_file *file = now.files[below(&state, FILES)], *own;
  struct pw_cache *cache;
  struct pw_queue *queue;
  char buf[100], path[4200];
  size_t nr;
  int error, is_callback = 0;
  alarm(LIMIT_S);
  error = pw_read(file, buf, 100, (int64_t)below(&state, 8 * PAGE), &nr);
  CHECK(error == PW_OK || error == PW_ERROR_FORKED || error == PW_ERROR_HANDLE);
  RETURNS(PW_ERROR_FORKED, pw_queue_run(now.queue, 1, 0, &nr));
  error = pw_submit_read(now.queue, file, buf, 1, 0, completed, NULL, NULL);
  CHECK(error == PW_ERROR_FORKED);
  error = pw_close(file);
  CHECK(error == PW_ERROR_FORKED || error == PW_ERROR_HANDLE);
  RETURNS(PW_ERROR_FORKED, pw_queue_close(now.queue));
  RETURNS(PW_ERROR_FORKED, pw_cache_close(now.cache));
  if (below(&state, 2)) {
    snprintf(path, sizeof path, "%s/child-%d", now.own, (int)getpid());
    OK(new_cache(&cache));
    OK(pw_queue_new(&queue));
    OK(pw_open(cache, path, PW_OPEN_CREATE, NULL, &own));
    OK(pw_write(own, "child", 5, 0, &nr));
    CHECK(unlink(path) == 0);
    is_callback = now.nr_completed;
    OK(pw_submit_read(queue, own, malloc(5), 5, 0, completed, NULL, NULL));
    OK(pw_queue_run(queue, 1, -1, &nr));
    is_callback = now.nr_completed - is_callback;
    CHECK(nr == 1 && is_callback == 1);
    if (below(&state, 2)) {
      OK(pw_close(own));
      OK(pw_queue_close(queue));
      OK(pw_cache_close(cache));
    }
  }
  switch (below(&state, 4)) {
  case 0:
    execl("/bin/true", "true", (char *)NULL);
    _exit(1);
  case 1:
    raise(SIGKILL);
    _exit(1);
  case 2:
    exit(0);
  default:
    _exit(0);
  }
}

static void fork_a_child(uint64_t *state) {
  uint64_t its = next(state);
  int status;
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0)
    child(its);
  now.nr_children++;
  CHECK(waitpid(pid, &status, 0) == pid);
  CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
}

static void open_a_file(uint64_t *state) {
  static const int flags[] = {0, PW_OPEN_WRITE, PW_OPEN_CREATE, PW_OPEN_CREATE, PW_OPEN_CREATE | PW_OPEN_MANUAL,
                              PW_OPEN_CREATE | PW_OPEN_TRUNCATE, PW_OPEN_CREATE | PW_OPEN_DIRECT};
  struct pw_file *file, *before;
  char path[4200];
  size_t nr;
  path_of(state, path, sizeof path);
  int error = pw_open(now.cache, path, flags[below(state, sizeof flags / sizeof *flags)], NULL, &file);
  EXPECTED(error);
  if (error != PW_OK)
    return;
  before = atomic_exchange(&now.files[below(state, FILES)], file);
  /* Other threads may be in calls with the handle, and requests with it in the queue. */
  while (before != NULL && (error = pw_close(before)) != PW_OK) {
    CHECK(error == PW_ERROR_BUSY);
    OK(pw_queue_run(now.queue, 4, 0, &nr));
  }
}

static void submit(uint64_t *state, struct pw_file *file, int64_t offset) {
  char *buf = (char *)malloc(PAGE);
  uint64_t request = 0;
  int error;
  CHECK(buf != NULL);
  for (int i = 0; i < PAGE; i++)
    buf[i] = byte_at(offset + i);
  now.nr_submitted++;
  switch (below(state, 4)) {
  case 0:
    error = pw_submit_read(now.queue, file, buf, PAGE, offset, completed, buf, &request);
    break;
  case 1:
    error = pw_submit_write(now.queue, file, buf, PAGE, offset, completed, buf, &request);
    break;
  case 2:
    error = pw_submit_sync_data(now.queue, file, completed, buf, &request);
    break;
  default:
    error = pw_submit_pin(now.queue, file, (uint64_t)offset / PAGE, completed, buf, &request);
  }
  EXPECTED(error);
  if (error != PW_OK) {
    now.nr_submitted--;
    free(buf);
  } else if (below(state, 4) == 0) {
    EXPECTED(pw_queue_cancel(now.queue, request));
  }
}

static void *steps(void *seed) {
  uint64_t state = *(uint64_t *)seed;
  char buf[3 * PAGE], path[4200], other_path[4200];
  struct pw_file *other;
  struct pw_page page;
  struct pw_view view;
  struct pw_edit edit;
  size_t nr;
  int error;
  for (int step = 0; step < STEPS; step++) {
    struct pw_file *file = now.files[below(&state, FILES)];
    int64_t offset = (int64_t)below(&state, 12 * PAGE);
    size_t size = below(&state, sizeof buf);
    switch (below(&state, 20)) {
    case 0 ... 3:
      open_a_file(&state);
      break;
    case 4 ... 5:
      error = pw_read(file, buf, size, offset, &nr);
      EXPECTED(error);
      if (error == PW_OK)
        check_bytes(buf, nr, offset);
      break;
    case 6 ... 8:
      for (size_t i = 0; i < size; i++)
        buf[i] = byte_at(offset + (int64_t)i);
      EXPECTED(pw_write(file, buf, size, offset, &nr));
      break;
    case 9:
      EXPECTED(pw_sync_data(file));
      break;
    case 10:
      EXPECTED(pw_set_size(file, offset));
      break;
    case 11:
      error = pw_pin(file, (uint64_t)offset / PAGE, &page);
      EXPECTED(error);
      if (error == PW_OK) {
        check_bytes((const char *)page.data, page.size, (int64_t)page.page * PAGE);
        OK(pw_unpin(&page));
      }
      break;
    case 12:
      error = pw_view_begin(file, (uint64_t)offset / PAGE, &view);
      EXPECTED(error);
      if (error == PW_OK && (error = pw_view_copy(&view, 0, buf, view.size)) == PW_OK)
        check_bytes(buf, view.size, (int64_t)view.page * PAGE);
      EXPECTED(error);
      break;
    case 13:
      error = pw_edit_begin(file, (uint64_t)offset / PAGE, PW_EDIT_TRY, &edit);
      EXPECTED(error);
      if (error == PW_OK) {
        for (size_t i = 0; i < edit.size; i++)
          ((char *)edit.data)[i] = byte_at((int64_t)edit.page * PAGE + (int64_t)i);
        OK(below(&state, 2) ? pw_edit_commit(&edit, 0) : pw_edit_cancel(&edit));
      }
      break;
    case 14:
      error = pw_dup(file, &other);
      EXPECTED(error);
      while (error == PW_OK && (error = pw_close(other)) != PW_OK)
        CHECK(error == PW_ERROR_BUSY);
      break;
    case 15:
      path_of(&state, path, sizeof path);
      if (below(&state, 2)) {
        /* In its folder: the other process may have a file of the common one open. */
        memcpy(other_path, path, sizeof path);
        other_path[strlen(path) - 1] = (char)('0' + below(&state, FILES));
        (void)!rename(path, other_path);
      } else {
        (void)!unlink(path);
      }
      break;
    case 16 ... 17:
      submit(&state, file, offset);
      OK(pw_queue_run(now.queue, below(&state, 4), 0, &nr));
      break;
    case 18:
      change_options(&state);
      break;
    default:
      if (below(&state, 2))
        fork_a_child(&state);
      else
        cancel_a_thread();
    }
  }
  return NULL;
}

/* Number of entries of a folder. */
static int nr_entries(const char *path) {
  DIR *folder = opendir(path);
  int nr = 0;
  CHECK(folder != NULL);
  while (readdir(folder) != NULL)
    nr++;
  CHECK(closedir(folder) == 0);
  return nr;
}

static long nr_resident_pages(void) {
  long all, resident;
  FILE *file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL && fscanf(file, "%ld %ld", &all, &resident) == 2);
  CHECK(fclose(file) == 0);
  return resident;
}

/* No process has a lock of a file of this process. */
static void check_locks(void) {
  char path[4200];
  for (int i = 0; i < FILES; i++) {
    struct flock lock;
    snprintf(path, sizeof path, "%s/%d", now.own, i);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
      continue;
    memset(&lock, 0, sizeof lock);
    lock.l_type = F_WRLCK;
    CHECK(fcntl(fd, F_OFD_GETLK, &lock) == 0);
    CHECK(lock.l_type == F_UNLCK);
    CHECK(close(fd) == 0);
  }
}

static void history(uint64_t seed) {
  struct pw_cache_options *options;
  uint64_t state = seed, seeds[THREADS];
  pthread_t threads[THREADS];
  size_t nr;
  int error, ends[2];
  OK(pw_cache_options_new(&options));
  OK(pw_cache_options_set_capacity(options, (1 + below(&state, 4)) << 20));
  OK(pw_cache_options_set_engine(options, (int)below(&state, 4) == 0 ? PW_ENGINE_WORKER : PW_ENGINE_AUTO));
  OK(pw_cache_new(options, &now.cache));
  OK(pw_cache_options_free(options));
  OK(pw_queue_new(&now.queue));
  now.nr_submitted = now.nr_completed = 0;
  for (int i = 0; i < THREADS; i++) {
    seeds[i] = next(&state);
    CHECK(pthread_create(&threads[i], NULL, steps, &seeds[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++)
    CHECK(pthread_join(threads[i], NULL) == 0);
  /* A child that has the descriptors, and outlives all objects. */
  CHECK(pipe2(ends, O_CLOEXEC) == 0);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    char byte;
    CHECK(close(ends[1]) == 0);
    CHECK(read(ends[0], &byte, 1) == 0);
    _exit(0);
  }
  CHECK(close(ends[0]) == 0);
  while (now.nr_completed < now.nr_submitted)
    OK(pw_queue_run(now.queue, 100, -1, &nr));
  OK(pw_queue_close(now.queue));
  OK(pw_cache_close(now.cache));
  for (int i = 0; i < FILES; i++) {
    struct pw_file *file = atomic_exchange(&now.files[i], NULL);
    while (file != NULL && (error = pw_close(file)) != PW_OK)
      CHECK(error == PW_ERROR_BUSY);
  }
  check_locks();
  CHECK(close(ends[1]) == 0);
  CHECK(waitpid(pid, &error, 0) == pid && WIFEXITED(error) && WEXITSTATUS(error) == 0);
}

static double seconds_now(void) {
  struct timespec time;
  CHECK(clock_gettime(CLOCK_MONOTONIC, &time) == 0);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Histories of one process. The first ones are not measured: the library keeps some memory. */
static void histories(uint64_t seed, double until) {
  enum { WARM = 5 };
  int nr_threads = 0, nr_descriptors = 0, nr = 0;
  long nr_pages = 0;
  for (; nr <= WARM || seconds_now() < until; nr++) {
    uint64_t its = seed + (uint64_t)nr;
    alarm(LIMIT_S);
    fflush(NULL);
    history(next(&its));
    if (nr < WARM) {
      /* Threads of the library may end a little later. */
      usleep(20000);
      nr_threads = nr_entries("/proc/self/task");
      nr_descriptors = nr_entries("/proc/self/fd");
      nr_pages = nr_resident_pages();
      continue;
    }
    AWAIT(nr_entries("/proc/self/task") <= nr_threads);
    AWAIT(nr_entries("/proc/self/fd") <= nr_descriptors);
  }
  printf("%d histories, %d children, memory %+ld pages\n", nr, (int)now.nr_children, nr_resident_pages() - nr_pages);
  CHECK(nr_resident_pages() - nr_pages < MAX_GROWTH_PAGES);
}

int main(int argc, char **argv) {
  CHECK(argc >= 2);
  uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
  double until = seconds_now() + (argc > 3 ? strtod(argv[3], NULL) : 5);
  int is_failed = 0;
  now.common = path_in(argv[1], "common");
  CHECK(mkdir(now.common, 0755) == 0);
  CHECK(signal(SIGALRM, on_alarm) != SIG_ERR);
  for (int i = 0; i < PROCESSES; i++) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
      char name[16];
      snprintf(name, sizeof name, "own-%d", i);
      now.own = path_in(argv[1], name);
      CHECK(mkdir(now.own, 0755) == 0);
      histories(seed * PROCESSES + (uint64_t)i, until);
      exit(0);
    }
  }
  for (int i = 0; i < PROCESSES; i++) {
    int status;
    CHECK(wait(&status) > 0);
    if (WIFSIGNALED(status))
      fprintf(stderr, "a process was ended by signal %d\n", WTERMSIG(status));
    is_failed |= status != 0;
  }
  if (is_failed)
    fprintf(stderr, "to replay: seed %llu\n", (unsigned long long)seed);
  return is_failed;
}
