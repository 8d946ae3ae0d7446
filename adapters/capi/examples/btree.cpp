// Look-ups in a B-tree, in C++: readers go from page to page by views, without a pin, while a writer changes the tree.
//
//     c++ -std=c++17 btree.cpp $(pkg-config --cflags --libs pagewell) -pthread -o btree && ./btree FILE
//
// The tree has two levels, and pages of 4096 bytes of aligned integers of 64 bits: a count, then as many entries, each a key and a value. In the root the value is the number
// of the page with the keys from this one on. The writer doubles values leaf by leaf; a reader must find one of a key's values, and never half of one.

#include <atomic>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include <pagewell.h>

namespace {

constexpr uint64_t kLeaves = 100;
constexpr uint64_t kEntries = 200;
constexpr size_t kWords = 4096 / sizeof(uint64_t);

[[noreturn]] void fail(const char *what) {
  std::fprintf(stderr, "%s: %s\n", what, pw_last_error());
  std::exit(1);
}

void check(int error, const char *what) {
  if (error != PW_OK)
    fail(what);
}

// An integer of a view: others may be writing it.
uint64_t load(const pw_view &view, size_t word) {
  return __atomic_load_n(static_cast<const uint64_t *>(view.data) + word, __ATOMIC_RELAXED);
}

// The number of the last entry of a node whose key is no larger than `key`; the count if there is none. What is loaded may be torn: so the count is bounded,
// and the answer counts only if the view is valid afterwards.
uint64_t find(const pw_view &view, uint64_t key, uint64_t *count) {
  if (view.size < 4096)
    return *count = 0;
  *count = load(view, 0);
  if (*count > (kWords - 1) / 2)
    *count = (kWords - 1) / 2;
  uint64_t low = 0, high = *count;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (load(view, 1 + 2 * middle) <= key)
      low = middle + 1;
    else
      high = middle;
  }
  return low == 0 ? *count : low - 1;
}

// Looks a key up: whether it is there.
bool look_up(pw_file *file, uint64_t key, uint64_t *value) {
  for (;;) {
    pw_view root, leaf;
    uint64_t count;
    check(pw_view_begin(file, 0, &root), "root");
    uint64_t entry = find(root, key, &count);
    uint64_t page = entry < count ? load(root, 2 + 2 * entry) : 0;
    // Before the number of the page is used.
    if (pw_view_validate(&root) != PW_OK)
      continue;
    if (entry >= count)
      return false;

    check(pw_view_begin(file, page, &leaf), "leaf");
    entry = find(leaf, key, &count);
    bool is_there = entry < count && load(leaf, 1 + 2 * entry) == key;
    *value = is_there ? load(leaf, 2 + 2 * entry) : 0;
    // The leaf is as it was seen, and the root has named it all the time.
    if (pw_view_validate(&leaf) == PW_OK && pw_view_validate(&root) == PW_OK)
      return is_there;
  }
}

void build(pw_file *file) {
  std::vector<uint64_t> root(kWords), node(kWords);
  root[0] = kLeaves;
  size_t written;
  for (uint64_t leaf = 0; leaf < kLeaves; leaf++) {
    node[0] = kEntries;
    for (uint64_t i = 0; i < kEntries; i++) {
      uint64_t key = 2 * (leaf * kEntries + i);
      node[1 + 2 * i] = key;
      node[2 + 2 * i] = key + 1;
    }
    root[1 + 2 * leaf] = node[1];
    root[2 + 2 * leaf] = leaf + 1;
    check(pw_write(file, node.data(), 4096, static_cast<int64_t>((leaf + 1) * 4096), &written), "write");
  }
  check(pw_write(file, root.data(), 4096, 0, &written), "write");
}

// Doubles all values of a leaf, at once for its readers.
void double_values(pw_file *file, uint64_t page) {
  pw_edit edit;
  check(pw_edit_begin(file, page, 0, &edit), "edit");
  auto *words = static_cast<uint64_t *>(edit.data);
  for (uint64_t i = 0; i < kEntries; i++)
    words[2 + 2 * i] *= 2;
  check(pw_edit_commit(&edit, 0), "commit");
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: btree FILE\n");
    return 2;
  }
  pw_cache *cache;
  pw_file *file;
  check(pw_cache_new(nullptr, &cache), "cache");
  check(pw_open(cache, argv[1], PW_OPEN_CREATE | PW_OPEN_TRUNCATE, nullptr, &file), "open");
  build(file);

  constexpr uint64_t kRounds = 4;
  std::atomic<bool> is_done{false};
  std::thread writer([&] {
    for (uint64_t round = 0; round < kRounds; round++)
      for (uint64_t leaf = 0; leaf < kLeaves; leaf++)
        double_values(file, leaf + 1);
    is_done = true;
  });
  uint64_t nr = 0, found = 0, wrong = 0;
  for (uint64_t key = 0; !is_done || nr < 2 * kLeaves * kEntries; key = (key + 7) % (2 * kLeaves * kEntries), nr++) {
    uint64_t value;
    bool is_there = look_up(file, key, &value);
    found += is_there;
    if (is_there != (key % 2 == 0))
      wrong++;
    else if (is_there && (value % (key + 1) != 0 || value / (key + 1) > 1u << kRounds))
      wrong++;
  }
  writer.join();
  std::printf("%" PRIu64 " look-ups, %" PRIu64 " found, %" PRIu64 " wrong\n", nr, found, wrong);
  check(pw_close(file), "close");
  check(pw_cache_close(cache), "close");
  return wrong == 0 ? 0 : 1;
}
