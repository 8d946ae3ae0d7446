/*
** Random point queries by prepared statements.
**
**   points make FILE ROWS                    a table of so many rows of 200 bytes
**   points run URI MMAP THREADS CONNECTIONS  connections, equally many a thread; MMAP bytes of mmap_size, or - for what there is by itself
**   points connect URI MMAP                  a connection for each query
**
** `run` and `connect` read lines "COUNT SEED" from standard input: each thread makes COUNT queries, by its connections in turn. They print the duration in nanoseconds.
*/
#include "sqlite3.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void fail(const char *what, sqlite3 *db) {
  fprintf(stderr, "points: %s: %s\n", what, db ? sqlite3_errmsg(db) : "");
  exit(1);
}

static void run(sqlite3 *db, const char *sql) {
  if (sqlite3_exec(db, sql, 0, 0, 0) != SQLITE_OK) fail(sql, db);
}

static sqlite3 *opened(const char *uri) {
  sqlite3 *db;
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;
  if (sqlite3_open_v2(uri, &db, flags, 0) != SQLITE_OK) fail(uri, db);
  return db;
}

static int make(const char *file, const char *rows) {
  sqlite3 *db = opened(file);
  char sql[400];
  run(db, "PRAGMA synchronous=OFF; CREATE TABLE t(id INTEGER PRIMARY KEY, body BLOB)");
  snprintf(sql, sizeof sql, "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < %ld) INSERT INTO t SELECT i, randomblob(200) FROM n", atol(rows));
  run(db, sql);
  return sqlite3_close(db);
}

struct work {
  sqlite3_stmt *queries[16];
  int nr_queries;
  int64_t nr_rows, count;
  uint64_t seed;
  uint64_t sum; /* so that nothing is left out */
};

static void *queried(void *argument) {
  struct work *work = argument;
  uint64_t random = work->seed * 2654435769u + 1;
  for (int64_t nr = 0; nr < work->count; nr++) {
    sqlite3_stmt *query = work->queries[nr % work->nr_queries];
    random = random * 6364136223846793005u + 1442695040888963407u;
    sqlite3_bind_int64(query, 1, (int64_t)((random >> 33) % (uint64_t)work->nr_rows));
    if (sqlite3_step(query) != SQLITE_ROW || sqlite3_column_bytes(query, 0) != 200) fail("a row is missing", sqlite3_db_handle(query));
    work->sum += *(const unsigned char *)sqlite3_column_blob(query, 0);
    sqlite3_reset(query);
  }
  return 0;
}

static sqlite3 *connected(char **arguments) {
  sqlite3 *db = opened(arguments[0]);
  char sql[100];
  if (strcmp(arguments[1], "-") != 0) {
    snprintf(sql, sizeof sql, "PRAGMA mmap_size=%s", arguments[1]);
    run(db, sql);
  }
  return db;
}

static int64_t nr_rows_of(sqlite3 *db) {
  sqlite3_stmt *count;
  int64_t nr_rows;
  if (sqlite3_prepare_v2(db, "SELECT max(id) + 1 FROM t", -1, &count, 0) != SQLITE_OK) fail("count", db);
  sqlite3_step(count);
  nr_rows = sqlite3_column_int64(count, 0);
  sqlite3_finalize(count);
  return nr_rows;
}

static sqlite3_stmt *query_of(sqlite3 *db) {
  sqlite3_stmt *query;
  if (sqlite3_prepare_v2(db, "SELECT body FROM t WHERE id = ?", -1, &query, 0) != SQLITE_OK) fail("query", db);
  return query;
}

static int64_t ns_since(const struct timespec *begin) {
  struct timespec end;
  clock_gettime(CLOCK_MONOTONIC, &end);
  return (int64_t)(end.tv_sec - begin->tv_sec) * 1000000000 + (end.tv_nsec - begin->tv_nsec);
}

static int serve_connections(char **arguments) {
  struct work work;
  char line[200];
  sqlite3 *first = connected(arguments);
  memset(&work, 0, sizeof work);
  work.nr_rows = nr_rows_of(first);
  sqlite3_close(first);
  while (fgets(line, sizeof line, stdin)) {
    int64_t nr_connections;
    uint64_t seed;
    struct timespec begin;
    if (sscanf(line, "%" SCNd64 " %" SCNu64, &nr_connections, &seed) != 2) return 2;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int64_t nr = 0; nr < nr_connections; nr++) {
      sqlite3 *db = connected(arguments);
      work.queries[0] = query_of(db);
      work.nr_queries = 1;
      work.count = 1;
      work.seed = seed * 1000003 + (uint64_t)nr;
      queried(&work);
      sqlite3_finalize(work.queries[0]);
      if (sqlite3_close(db) != SQLITE_OK) fail("close", db);
    }
    printf("%" PRId64 "\n", ns_since(&begin));
    fflush(stdout);
  }
  return 0;
}

static int serve(char **arguments) {
  int nr_threads = atoi(arguments[2]), nr_connections = atoi(arguments[3]);
  struct work work[8];
  char line[200];
  memset(work, 0, sizeof work);
  for (int nr = 0; nr < nr_connections; nr++) {
    struct work *mine = &work[nr % nr_threads];
    sqlite3 *db = connected(arguments);
    mine->nr_rows = nr_rows_of(db);
    mine->queries[mine->nr_queries++] = query_of(db);
  }
  while (fgets(line, sizeof line, stdin)) {
    int64_t count;
    uint64_t seed;
    struct timespec begin;
    pthread_t threads[8];
    if (sscanf(line, "%" SCNd64 " %" SCNu64, &count, &seed) != 2) return 2;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int nr = 0; nr < nr_threads; nr++) {
      work[nr].count = count;
      work[nr].seed = seed * 100 + (uint64_t)nr;
      if (pthread_create(&threads[nr], 0, queried, &work[nr])) return 2;
    }
    for (int nr = 0; nr < nr_threads; nr++) pthread_join(threads[nr], 0);
    printf("%" PRId64 "\n", ns_since(&begin));
    fflush(stdout);
  }
  return 0;
}

int main(int nr, char **arguments) {
  if (nr == 4 && strcmp(arguments[1], "make") == 0) return make(arguments[2], arguments[3]);
  if (nr == 6 && strcmp(arguments[1], "run") == 0) return serve(arguments + 2);
  if (nr == 4 && strcmp(arguments[1], "connect") == 0) return serve_connections(arguments + 2);
  fprintf(stderr, "usage: points make FILE ROWS | points run URI MMAP THREADS CONNECTIONS | points connect URI MMAP\n");
  return 2;
}
