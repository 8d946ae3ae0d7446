/* For programs of SQLite's own that are built with SQLITE_EXTRA_INIT=pagewell_bench_init: the VFS is there under its name. */
int pagewell_sqlite_register(int is_default);
int pagewell_bench_init(const char *unused);

int pagewell_bench_init(const char *unused) {
  (void)unused;
  return pagewell_sqlite_register(0);
}
