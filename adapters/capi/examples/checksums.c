/* A file with a checksum in each page, which the library's users never see: hooks on bytes put it there, and look at it.
 *
 *     cc checksums.c $(pkg-config --cflags --libs pagewell) -o checksums && ./checksums FILE
 *
 * The program leaves the last eight bytes of each page alone: they are zeros to it, and the checksum to the storage. The number of the page is summed up too, so that a page which came
 * to another place is found. What is not found is a whole page of an earlier time; and a page of zeros is one that nobody has written.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <pagewell.h>

enum { PAGE = 4096, SUM = 8, BODY = PAGE - SUM };

/* FNV-1a, of 64 bits: it finds mistakes, and not malice. */
static uint64_t sum_of(uint64_t page, const unsigned char *bytes) {
  uint64_t sum = 14695981039346656037u ^ page;
  for (int i = 0; i < BODY; i++)
    sum = (sum ^ bytes[i]) * 1099511628211u;
  /* Not zero, so that a page of zeros is stored with a byte that is none. */
  return sum | 1;
}

/* These pages are about to be written: copies, into which the checksums go. */
static int before_write(void *user, const struct pw_outgoing_page *pages, size_t count) {
  static const unsigned char zeros[SUM] = {0};
  (void)user;
  for (size_t i = 0; i < count; i++) {
    unsigned char *bytes = (unsigned char *)pages[i].data;
    if (memcmp(bytes + BODY, zeros, SUM) != 0)
      return EINVAL; /* The program has used them. */
    uint64_t sum = sum_of(pages[i].page, bytes);
    memcpy(bytes + BODY, &sum, SUM);
  }
  return 0;
}

/* This page was read: nobody sees it before. */
static int after_read(void *user, uint64_t page, void *data, size_t size) {
  unsigned char *bytes = (unsigned char *)data;
  uint64_t sum;
  (void)user, (void)size;
  memcpy(&sum, bytes + BODY, SUM);
  if (sum != sum_of(page, bytes))
    return EBADMSG;
  memset(bytes + BODY, 0, SUM);
  return 0;
}

/* Changes a bit in the storage, behind the cache's back. */
static int change_a_bit(const char *path, long offset) {
  FILE *file = fopen(path, "r+b");
  if (file == NULL)
    return -1;
  int byte = fseek(file, offset, SEEK_SET) == 0 ? fgetc(file) : EOF;
  int failed = byte == EOF || fseek(file, offset, SEEK_SET) != 0 || fputc(byte ^ 1, file) == EOF;
  return fclose(file) != 0 || failed ? -1 : 0;
}

static int run(struct pw_cache *cache, const char *path) {
  struct pw_open_options *how;
  struct pw_file *file;
  int error = pw_open_options_new(&how);
  if (error)
    return error;
  if ((error = pw_open_options_set_page_hooks(how, before_write, after_read, NULL, NULL, NULL)) == PW_OK)
    error = pw_open(cache, path, PW_OPEN_CREATE | PW_OPEN_TRUNCATE, how, &file);
  pw_open_options_free(how);
  if (error)
    return error;

  for (int64_t page = 0; page < 3 && !error; page++) {
    char text[32];
    size_t written;
    int size = snprintf(text, sizeof text, "this is page %d", (int)page);
    error = pw_write(file, text, (size_t)size, page * PAGE, &written);
  }
  if (!error)
    error = pw_sync_data(file);
  if (!error && change_a_bit(path, PAGE + 100) != 0)
    fprintf(stderr, "%s cannot be changed\n", path);
  /* What the cache has is as good as before. */
  if (!error)
    error = pw_invalidate(file, 0, 0);
  for (uint64_t nr = 0; nr < 3 && !error; nr++) {
    struct pw_page page;
    int pinned = pw_pin(file, nr, &page);
    if (pinned == PW_OK) {
      printf("page %" PRIu64 ": %s\n", nr, (const char *)page.data);
      pw_unpin(&page);
    } else if (pinned == PW_ERROR_CORRUPT) {
      printf("page %" PRIu64 ": %s\n", nr, pw_strerror(pinned));
    } else {
      error = pinned;
    }
  }
  int closed = pw_close(file);
  return error ? error : closed;
}

int main(int argc, char **argv) {
  struct pw_cache *cache;
  if (argc != 2) {
    fprintf(stderr, "usage: checksums FILE\n");
    return 2;
  }
  if (pw_cache_new(NULL, &cache) || run(cache, argv[1])) {
    fprintf(stderr, "%s\n", pw_last_error());
    return 1;
  }
  return pw_cache_close(cache) ? 1 : 0;
}
