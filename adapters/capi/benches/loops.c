/* The loops of benches/cost.rs: hits by the functions of the header, called as any C program calls them. */

#include <pagewell.h>

struct loops {
  struct pw_cache *cache;
  struct pw_file *file;
};

/* Opens the file at `path` in a cache of its own: 0, or an error code. */
int loops_open(struct loops *loops, const char *path) {
  int error = pw_cache_new(NULL, &loops->cache);
  return error ? error : pw_open(loops->cache, path, 0, NULL, &loops->file);
}

int loops_close(struct loops *loops) {
  int error = pw_close(loops->file);
  int other = pw_cache_close(loops->cache);
  return error ? error : other;
}

/* Each returns how many calls have gone wrong. */

uint64_t loops_read(const struct loops *loops, uint64_t nr, uint64_t mask) {
  char buf[64];
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < nr; i++) {
    size_t n = 0;
    int error = pw_read(loops->file, buf, sizeof buf, (int64_t)(i * 64 & mask), &n);
    wrong += error != 0 || n != sizeof buf;
    __asm__ volatile("" : : "r"(buf) : "memory");
  }
  return wrong;
}

uint64_t loops_pin(const struct loops *loops, uint64_t nr, uint64_t mask) {
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < nr; i++) {
    struct pw_page page;
    int error = pw_pin(loops->file, i & mask, &page);
    wrong += error != 0 || page.size != 4096;
    __asm__ volatile("" : : "r"(page.data) : "memory");
    wrong += pw_unpin(&page) != 0;
  }
  return wrong;
}

uint64_t loops_view(const struct loops *loops, uint64_t nr, uint64_t mask) {
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < nr; i++) {
    struct pw_view view;
    int error = pw_view_begin(loops->file, i & mask, &view);
    if (error == 0)
      __atomic_load_n((const uint64_t *)view.data, __ATOMIC_RELAXED);
    wrong += error != 0 || pw_view_validate(&view) != 0;
  }
  return wrong;
}
