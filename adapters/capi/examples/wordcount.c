/* Counts lines, words and bytes of files, as wc: pages are pinned and read where they are.
 *
 *     cc wordcount.c $(pkg-config --cflags --libs pagewell) -o wordcount && ./wordcount FILE...
 */

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

#include <pagewell.h>

struct counts {
  uint64_t lines, words, bytes;
};

/* Counts the words of a file: 0, or an error code. */
static int count(struct pw_cache *cache, const char *path, struct counts *counts) {
  struct pw_file *file;
  int error = pw_open(cache, path, 0, NULL, &file);
  if (error)
    return error;
  pw_advise(file, 0, 0, PW_ADVICE_SEQUENTIAL);

  int in_word = 0;
  for (uint64_t nr = 0;; nr++) {
    struct pw_page page;
    error = pw_pin(file, nr, &page);
    if (error)
      break;
    const unsigned char *bytes = (const unsigned char *)page.data;
    for (size_t at = 0; at < page.size; at++) {
      int is_space = isspace(bytes[at]);
      counts->words += !is_space && !in_word;
      counts->lines += bytes[at] == '\n';
      in_word = !is_space;
    }
    counts->bytes += page.size;
    pw_unpin(&page);
  }
  /* The file has no such page: that is its end. */
  if (error == PW_ERROR_OUT_OF_RANGE)
    error = PW_OK;
  int closed = pw_close(file);
  return error ? error : closed;
}

int main(int argc, char **argv) {
  struct pw_cache *cache;
  if (pw_cache_new(NULL, &cache)) {
    fprintf(stderr, "%s\n", pw_last_error());
    return 1;
  }
  int status = 0;
  for (int i = 1; i < argc; i++) {
    struct counts counts = {0, 0, 0};
    if (count(cache, argv[i], &counts)) {
      fprintf(stderr, "%s\n", pw_last_error());
      status = 1;
      continue;
    }
    printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %s\n", counts.lines, counts.words, counts.bytes, argv[i]);
  }
  return pw_cache_close(cache) ? 1 : status;
}
