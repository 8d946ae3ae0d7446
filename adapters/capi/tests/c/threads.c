/* Several threads: closing against calls, pins that are given back elsewhere and twice, requests, hooks in hooks. */

#include "check.h"

#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 50 };

static struct pw_cache *cache;
static const char *path;
static _Atomic(struct pw_file *) current;
static atomic_int is_over;
static atomic_ulong hits;

/* Uses whatever file is open, or was. */
static void *use(void *unused) {
  (void)unused;
  char buf[64];
  struct pw_page page;
  struct pw_view view;
  size_t nr;
  for (int i = 0; !is_over; i++) {
    struct pw_file *file = current;
    int error = pw_read(file, buf, sizeof buf, (i * 64) % 9000, &nr);
    CHECK(error == PW_OK || error == PW_ERROR_HANDLE || error == PW_ERROR_BUSY);
    hits += error == PW_OK;
    /* Outside of calls: where threads have to take turns, a closer finds none of them in one now and then. */
    sched_yield();
    error = pw_pin(file, 1, &page);
    CHECK(error == PW_OK || error == PW_ERROR_HANDLE || error == PW_ERROR_BUSY);
    if (error == PW_OK) {
      CHECK(page.size == 4096 && *(const unsigned char *)page.data == 4096 % 251);
      OK(pw_unpin(&page));
    }
    error = pw_view_begin(file, 0, &view);
    CHECK(error == PW_OK || error == PW_ERROR_HANDLE || error == PW_ERROR_BUSY);
    if (error == PW_OK) {
      error = pw_view_copy(&view, 0, buf, 1);
      CHECK(error == PW_OK || error == PW_ERROR_HANDLE || error == PW_ERROR_BUSY || error == PW_ERROR_CHANGED ||
            error == PW_ERROR_CHANGING);
    }
  }
  return NULL;
}

static void closing_against_calls(void) {
  pthread_t threads[THREADS];
  struct pw_file *file;
  int nr_busy = 0;
  OK(pw_open(cache, path, 0, NULL, &file));
  current = file;
  for (int i = 0; i < THREADS; i++)
    CHECK(pthread_create(&threads[i], NULL, use, NULL) == 0);
  int rounds = 0;
  for (; rounds < ROUNDS || hits == 0; rounds++) {
    struct pw_file *next;
    OK(pw_open(cache, path, 0, NULL, &next));
    current = next;
    int error;
    while ((error = pw_close(file)) == PW_ERROR_BUSY)
      nr_busy++;
    OK(error);
    RETURNS(PW_ERROR_HANDLE, pw_close(file));
    file = next;
  }
  is_over = 1;
  for (int i = 0; i < THREADS; i++)
    CHECK(pthread_join(threads[i], NULL) == 0);
  OK(pw_close(file));
  printf("closed %d times, %d times busy\n", rounds + 1, nr_busy);
}

static pthread_barrier_t both;
static struct pw_page shared;
static atomic_int given_back;

static void *unpin(void *unused) {
  (void)unused;
  for (int i = 0; i < ROUNDS; i++) {
    pthread_barrier_wait(&both);
    struct pw_page copy = shared;
    pthread_barrier_wait(&both);
    int error = pw_unpin(&copy);
    CHECK(error == PW_OK || error == PW_ERROR_HANDLE);
    given_back += error == PW_OK;
    pthread_barrier_wait(&both);
  }
  return NULL;
}

/* Two threads give one pin back at the same time: one of them does. */
static void pins_given_back_twice(void) {
  pthread_t threads[2];
  struct pw_file *file;
  OK(pw_open(cache, path, 0, NULL, &file));
  CHECK(pthread_barrier_init(&both, NULL, 3) == 0);
  for (int i = 0; i < 2; i++)
    CHECK(pthread_create(&threads[i], NULL, unpin, NULL) == 0);
  for (int i = 0; i < ROUNDS; i++) {
    OK(pw_pin(file, 1, &shared));
    given_back = 0;
    pthread_barrier_wait(&both);
    pthread_barrier_wait(&both);
    pthread_barrier_wait(&both);
    CHECK(given_back == 1);
  }
  for (int i = 0; i < 2; i++)
    CHECK(pthread_join(threads[i], NULL) == 0);
  OK(pw_close(file));
}

/* Many pins at once, given back in another order. */
static void many_pins(void) {
  enum { NR = 1000 };
  static struct pw_page pages[NR];
  struct pw_file *file;
  OK(pw_open(cache, path, 0, NULL, &file));
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < NR; i++)
      OK(pw_pin(file, (uint64_t)i % 3, &pages[i]));
    RETURNS(PW_ERROR_BUSY, pw_close(file));
    for (int i = 0; i < NR; i++)
      OK(pw_unpin(&pages[(i * 7) % NR]));
  }
  OK(pw_close(file));
}

static atomic_int nr_done;

static void again(const struct pw_completion *completion, void *user) {
  OK(completion->error);
  CHECK(completion->size == 100);
  nr_done++;
  (void)user;
}

static void *run(void *queue) {
  while (!is_over) {
    size_t nr;
    OK(pw_queue_run((struct pw_queue *)queue, 3, 10, &nr));
  }
  return NULL;
}

static void queues_of_several_threads(void) {
  static char bufs[ROUNDS * 10][100];
  pthread_t threads[THREADS];
  struct pw_queue *queue;
  struct pw_file *file;
  is_over = 0;
  OK(pw_queue_new(&queue));
  OK(pw_open(cache, path, 0, NULL, &file));
  for (int i = 0; i < THREADS; i++)
    CHECK(pthread_create(&threads[i], NULL, run, queue) == 0);
  for (int i = 0; i < ROUNDS * 10; i++) {
    if (i % 100 == 0)
      OK(pw_invalidate(file, 0, 0));
    OK(pw_submit_read(queue, file, bufs[i], 100, i % 9000, again, NULL, NULL));
  }
  while (nr_done < ROUNDS * 10)
    sched_yield();
  is_over = 1;
  for (int i = 0; i < THREADS; i++)
    CHECK(pthread_join(threads[i], NULL) == 0);
  for (int i = 0; i < ROUNDS * 10; i++)
    CHECK((unsigned char)bufs[i][99] == (i % 9000 + 99) % 251);
  OK(pw_close(file));
  OK(pw_queue_close(queue));
}

static struct pw_file *logged;
static struct pw_file *hooked;

/* Uses the other file, and asks for what would wait for itself. */
static int log_first(void *user, uint64_t page, uint64_t lsn) {
  char buf[4];
  size_t nr;
  (void)page, (void)lsn;
  ++*(int *)user;
  OK(pw_append(logged, "log.", 4, NULL));
  OK(pw_sync_data(logged));
  OK(pw_read(hooked, buf, 4, 0, &nr));
  RETURNS(PW_ERROR_DEADLOCK, pw_sync_data(hooked));
  RETURNS(PW_ERROR_BUSY, pw_close(hooked));
  return 0;
}

static void hooks_that_call(const char *folder) {
  struct pw_open_options *how;
  int calls = 0;
  size_t nr;
  OK(pw_open(cache, path_in(folder, "log"), PW_OPEN_CREATE, NULL, &logged));
  OK(pw_open_options_new(&how));
  OK(pw_open_options_set_before_write(how, log_first, &calls, NULL));
  OK(pw_open(cache, path_in(folder, "hooked"), PW_OPEN_CREATE | PW_OPEN_MANUAL, how, &hooked));
  OK(pw_open_options_free(how));
  OK(pw_write(hooked, "page", 4, 0, &nr));
  OK(pw_sync_data(hooked));
  CHECK(calls == 1);
  OK(pw_close(hooked));
  OK(pw_close(logged));
}

static struct pw_file *inverted;
static atomic_int nr_turned_back;

static int turn(void *user, const struct pw_outgoing_page *pages, size_t count) {
  (void)user;
  for (size_t i = 0; i < count; i++)
    for (size_t at = 0; at < pages[i].size; at++)
      ((unsigned char *)pages[i].data)[at] ^= 0xff;
  return 0;
}

/* Makes calls, also with its own file: hits are fine, and what may wait is refused. */
static int turn_back(void *user, uint64_t page, void *data, size_t size) {
  char buf[4];
  size_t nr;
  (void)user;
  for (size_t at = 0; at < size; at++)
    ((unsigned char *)data)[at] ^= 0xff;
  nr_turned_back++;
  if (page != 0) {
    int error = pw_read(inverted, buf, 4, 0, &nr);
    CHECK(error == PW_OK || error == PW_ERROR_DEADLOCK);
    RETURNS(PW_ERROR_DEADLOCK, pw_sync_data(inverted));
    RETURNS(PW_ERROR_DEADLOCK, pw_invalidate(inverted, 0, 0));
    RETURNS(PW_ERROR_DEADLOCK, pw_advise(inverted, 0, 0, PW_ADVICE_NOT_SOON));
  }
  return 0;
}

enum { PAGES = 64 };

static void *read_all(void *first) {
  unsigned char buf[100];
  size_t nr;
  for (int i = 0; i < 2 * PAGES; i++) {
    int page = (i + *(const int *)first) % PAGES;
    OK(pw_read(inverted, buf, sizeof buf, page * 4096, &nr));
    CHECK(nr == sizeof buf && buf[0] == page + 1 && buf[99] == page + 1);
    if (i % 16 == 0)
      OK(pw_invalidate(inverted, page * 4096, 8 * 4096));
  }
  return NULL;
}

/* Several threads miss pages of a file with hooks on bytes. */
static void hooks_on_bytes_of_several_threads(const char *folder) {
  static unsigned char bytes[4096];
  static int firsts[THREADS];
  pthread_t threads[THREADS];
  struct pw_open_options *how;
  size_t nr;
  OK(pw_open_options_new(&how));
  OK(pw_open_options_set_page_hooks(how, turn, turn_back, NULL, NULL, NULL));
  OK(pw_open(cache, path_in(folder, "inverted"), PW_OPEN_CREATE, how, &inverted));
  OK(pw_open_options_free(how));
  for (int page = 0; page < PAGES; page++) {
    memset(bytes, page + 1, sizeof bytes);
    OK(pw_write(inverted, bytes, sizeof bytes, page * 4096, &nr));
  }
  OK(pw_sync_data(inverted));
  OK(pw_invalidate(inverted, 0, 0));
  for (int i = 0; i < THREADS; i++) {
    firsts[i] = i * 17;
    CHECK(pthread_create(&threads[i], NULL, read_all, &firsts[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++)
    CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(nr_turned_back >= PAGES);
  OK(pw_close(inverted));
}

static struct pw_queue *cancelled_queue;
static atomic_int is_waiting, has_returned;

static void *wait_in_queue(void *unused) {
  size_t nr;
  (void)unused;
  is_waiting = 1;
  OK(pw_queue_run(cancelled_queue, 1, 300, &nr));
  has_returned = nr == 0;
  for (;;)
    pause();
}

/* A thread is cancelled while it waits in the library, and ends outside of it. */
static void cancelled_threads(void) {
  pthread_t thread;
  void *result;
  OK(pw_queue_new(&cancelled_queue));
  CHECK(pthread_create(&thread, NULL, wait_in_queue, NULL) == 0);
  while (!is_waiting)
    sched_yield();
  CHECK(pthread_cancel(thread) == 0);
  CHECK(pthread_join(thread, &result) == 0);
  CHECK(result == PTHREAD_CANCELED && has_returned);
  OK(pw_queue_close(cancelled_queue));
}

static struct pw_open_options *released_options;
static int nr_released;

static void use_options(void *unused) {
  (void)unused;
  nr_released++;
  OK(pw_open_options_set_page_size(released_options, 4096));
}

static int no_hook(void *user, uint64_t page, uint64_t lsn) {
  (void)page;
  (void)lsn;
  (void)user;
  return 0;
}

/* A callback is released outside of all locks. */
static void release_that_calls(void) {
  OK(pw_open_options_new(&released_options));
  for (int i = 0; i < 3; i++)
    OK(pw_open_options_set_before_write(released_options, no_hook, NULL, use_options));
  CHECK(nr_released == 2);
  OK(pw_open_options_set_before_write(released_options, NULL, NULL, NULL));
  CHECK(nr_released == 3);
  OK(pw_open_options_free(released_options));
}

static volatile sig_atomic_t nr_handled;

static void handle(int signal) {
  (void)signal;
  nr_handled++;
}

/* Signals that the program has blocked in its only thread are not handled, and not fatal, in threads of the library. */
static void signals_that_are_blocked(const char *folder) {
  struct pw_open_options *how;
  struct pw_file *file;
  struct timespec none = {0, 0};
  struct sigaction action;
  sigset_t blocked, before;
  size_t nr;
  OK(pw_open_options_new(&how));
  OK(pw_open(cache, path_in(folder, "signals"), PW_OPEN_CREATE, how, &file));
  OK(pw_open_options_free(how));
  OK(pw_write(file, "dirty", 5, 0, &nr));
  OK(pw_sync_data(file));
  memset(&action, 0, sizeof action);
  action.sa_handler = handle;
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
  CHECK(sigemptyset(&blocked) == 0 && sigaddset(&blocked, SIGTERM) == 0 && sigaddset(&blocked, SIGUSR1) == 0);
  CHECK(pthread_sigmask(SIG_BLOCK, &blocked, &before) == 0);
  CHECK(kill(getpid(), SIGUSR1) == 0 && kill(getpid(), SIGTERM) == 0);
  OK(pw_write(file, "again", 5, 0, &nr));
  OK(pw_sync_data(file));
  CHECK(nr_handled == 0);
  CHECK(sigdelset(&blocked, SIGUSR1) == 0);
  CHECK(sigtimedwait(&blocked, NULL, &none) == SIGTERM);
  CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
  CHECK(nr_handled == 1);
  OK(pw_close(file));
}

/* Refuses membarrier(2) in this thread, and in threads and processes that it creates from now on. */
static void refuse_membarrier(void) {
  struct sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog filter = {sizeof steps / sizeof steps[0], steps};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
}

/* The last test: the system refuses membarrier(2), which it has granted before. Edits can still be ended. */
static void edits_without_membarrier(void) {
  struct pw_cache_options *options;
  struct pw_file *file;
  struct pw_edit edit;
  if (is_valgrind() || syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0) < MEMBARRIER_CMD_PRIVATE_EXPEDITED)
    return;
  OK(pw_open(cache, path, PW_OPEN_WRITE, NULL, &file));
  refuse_membarrier();
  OK(pw_edit_begin(file, 0, 0, &edit));
  OK(pw_edit_cancel(&edit));
  OK(pw_edit_begin(file, 0, PW_EDIT_TRY, &edit));
  OK(pw_edit_commit(&edit, 0));
  OK(pw_cache_options_new(&options));
  OK(pw_cache_options_free(options));
  RETURNS(PW_ERROR_UNAVAILABLE, pw_close(file));
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  path = make_file(argv[1], "file", 10000);
  OK(new_cache(&cache));
  closing_against_calls();
  pins_given_back_twice();
  many_pins();
  queues_of_several_threads();
  hooks_that_call(argv[1]);
  hooks_on_bytes_of_several_threads(argv[1]);
  signals_that_are_blocked(argv[1]);
  cancelled_threads();
  release_that_calls();
  edits_without_membarrier();
  OK(pw_cache_close(cache));
  return 0;
}
