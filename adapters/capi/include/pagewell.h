/**
 * @file pagewell.h
 * @brief A page cache to embed: pages of files in a fixed amount of memory, read without locks.
 *
 * Made by cbindgen of the sources of the library; do not edit it.
 *
 * @section form How calls are made
 *
 * Each call returns ::PW_OK, which is 0, or one of ::pw_error; pw_strerror() has a text for it, and pw_last_error() one with the path and the cause,
 * which is the thread's own, as pw_last_errno() is. What a call gives is written to places that the program passes; after an error they are as they were, unless a function says
 * otherwise.
 *
 * Sizes are `size_t`, and offsets signed with 64 bits, as `off_t` of POSIX; pages have numbers, and begin at their number times the page size.
 *
 * @section handles Handles
 *
 * Caches, files, options and queues are *handles*: pointers that point to no memory, and that only this library can do anything with. A handle that is null,
 * was closed, or never was one, in whatever thread, is ::PW_ERROR_HANDLE; it is never taken for another one that is open, and nothing is done. A handle that another thread is
 * using is not closed: ::PW_ERROR_BUSY. After ::PW_ERROR_PANIC, a fault of the library, the handle of the call is dead: all other calls with it are ::PW_ERROR_PANIC too, and it
 * can be closed.
 *
 * Structures that a call fills in (pw_page, pw_edit, pw_view, pw_completion) are the program's memory; two threads may not use one at the same time, unless both only read it.
 *
 * What is checked of other pointers: whether they are null, and aligned. A buffer must have the bytes that are said, as for any function of C.
 *
 * @section threads Threads, signals, fork
 *
 * All functions may be called by any thread, several at once, where nothing else is said at a function. None may be called in a handler of a signal.
 *
 * A child of `fork` gets ::PW_ERROR_FORKED from all calls that are not hits, and changes nothing, in the file or in the cache of its parent.
 *
 * @section begin A beginning
 *
 * @code{.c}
 * struct pw_cache *cache;
 * struct pw_file *file;
 * char buf[100];
 * size_t n;
 *
 * if (pw_cache_new(NULL, &cache) || pw_open(cache, "table.db", 0, NULL, &file) || pw_read(file, buf, sizeof buf, 123456, &n))
 *     fprintf(stderr, "%s\n", pw_last_error());
 * pw_close(file);
 * pw_cache_close(cache);
 * @endcode
 */

#ifndef PAGEWELL_H
#define PAGEWELL_H

#include <stddef.h>
#include <stdint.h>

/**
 * Fail with ::PW_ERROR_LOCKED if the page is being edited, instead of waiting: ::pw_edit_begin.
 */
#define PW_EDIT_TRY 1

/**
 * Open for writing too. Without it, for reading only. Only one process can have a file open for writing.
 */
#define PW_OPEN_WRITE 1

/**
 * Open for writing, and create the file if there is none.
 */
#define PW_OPEN_CREATE 2

/**
 * Open for writing, and create the file; fail if it exists.
 */
#define PW_OPEN_CREATE_NEW 4

/**
 * Open for writing, and empty the file.
 */
#define PW_OPEN_TRUNCATE 8

/**
 * Past the operating system's cache, where the file system can do that: ::pw_file_info says what has come of it.
 */
#define PW_OPEN_DIRECT 16

/**
 * Past the operating system's cache, or ::PW_ERROR_UNAVAILABLE.
 */
#define PW_OPEN_DIRECT_ALWAYS 32

/**
 * Open for writing, and write dirty pages only when the program asks for it; else they are written soon, in the background.
 */
#define PW_OPEN_MANUAL 64

/**
 * What a call returns: 0, or one of these. The numbers are stable, and none is an `errno`; ::pw_last_errno has the system's.
 *
 * A later version may have others, and the same call may return them.
 */
enum pw_error {
  /**
   * Nothing has gone wrong.
   */
  PW_OK = 0,
  /**
   * The handle is not open: it is null, was closed or given back, is of another kind, or was never one. Nothing was done.
   */
  PW_ERROR_HANDLE = 5001,
  /**
   * A fault of the library: an assertion has failed inside of it. The handle of the call is dead: all that can be done with it is to close it.
   */
  PW_ERROR_PANIC = 5002,
  /**
   * An argument is out of its range: null where something is needed, a negative offset, an unknown flag. Nothing was done.
   */
  PW_ERROR_ARGUMENT = 5003,
  /**
   * The handle is in use, and was not closed: pages are pinned or edited by it, requests are on their way, or another thread is in a call with it.
   */
  PW_ERROR_BUSY = 5004,
  /**
   * Only the thread that has begun the edit can do this.
   */
  PW_ERROR_THREAD = 5005,
  /**
   * There are as many handles of this kind as there can be.
   */
  PW_ERROR_LIMIT = 5006,
  /**
   * The request was canceled: ::pw_queue_cancel.
   */
  PW_ERROR_CANCELED = 5007,
  /**
   * The page has changed since the view began, or was evicted. What was read of it does not count; begin again.
   */
  PW_ERROR_CHANGED = 5008,
  /**
   * Somebody is just about to change the page, or is writing it back. Validate again, or begin again.
   */
  PW_ERROR_CHANGING = 5009,
  /**
   * There is no such file.
   */
  PW_ERROR_NOT_FOUND = 5101,
  /**
   * The system does not allow it.
   */
  PW_ERROR_PERMISSION = 5102,
  /**
   * The path names a directory, a pipe, or something else that has no bytes at positions.
   */
  PW_ERROR_NOT_A_FILE = 5103,
  /**
   * A setting is out of its range; ::pw_last_error says which.
   */
  PW_ERROR_CONFIG = 5104,
  /**
   * The page size is not 4, 8, 16, 32 or 64 KiB.
   */
  PW_ERROR_PAGE_SIZE = 5105,
  /**
   * The file is open in the cache already, with another page size.
   */
  PW_ERROR_PAGE_SIZE_MISMATCH = 5106,
  /**
   * The file is open in the cache already, with other options; ::pw_last_error says which.
   */
  PW_ERROR_OPTIONS_MISMATCH = 5107,
  /**
   * The page begins at or past the end of the file.
   */
  PW_ERROR_OUT_OF_RANGE = 5108,
  /**
   * The file is, or would be, larger than the cache can index.
   */
  PW_ERROR_FILE_TOO_LARGE = 5109,
  /**
   * The file has become shorter behind the cache's back.
   */
  PW_ERROR_TRUNCATED = 5110,
  /**
   * No memory of the cache could be freed; ::pw_last_error says what holds it.
   */
  PW_ERROR_OUT_OF_FRAMES = 5111,
  /**
   * What the page says leads nowhere. (No function of this header returns it yet.)
   */
  PW_ERROR_MALFORMED = 5112,
  /**
   * The page has as many references as it can count: 2^30.
   */
  PW_ERROR_TOO_MANY_PINS = 5113,
  /**
   * The system has no memory left.
   */
  PW_ERROR_OUT_OF_MEMORY = 5114,
  /**
   * The file is open for reading only.
   */
  PW_ERROR_READ_ONLY = 5115,
  /**
   * Another process, or another cache, has the file open for writing.
   */
  PW_ERROR_OPEN_ELSEWHERE = 5116,
  /**
   * The file has as many dirty pages as it may have, and they cannot be written back; ::pw_last_error says why.
   */
  PW_ERROR_THROTTLED = 5117,
  /**
   * A page is being edited.
   */
  PW_ERROR_LOCKED = 5120,
  /**
   * The call would wait for its own thread, which is in a hook of the file, or edits the page.
   */
  PW_ERROR_DEADLOCK = 5121,
  /**
   * The program's hook has refused a page.
   */
  PW_ERROR_REFUSED = 5122,
  /**
   * This process was forked from the one that has made the cache.
   */
  PW_ERROR_FORKED = 5123,
  /**
   * The system does not have what was asked for, and nothing may stand in for it; ::pw_last_error says why.
   */
  PW_ERROR_UNAVAILABLE = 5124,
  /**
   * The storage has failed: a full disk, say. ::pw_last_errno has the system's number.
   */
  PW_ERROR_IO = 5125,
  /**
   * The program's hook says that a page is not what it was when it was written: ::pw_open_options_set_page_hooks.
   */
  PW_ERROR_CORRUPT = 5126,
  /**
   * ::PW_OPEN_CREATE_NEW was set, and the file exists.
   */
  PW_ERROR_EXISTS = 5127,
  /**
   * The path is too long, passes through a file, or has more than 40 symbolic links.
   */
  PW_ERROR_PATH = 5128,
  /**
   * A limit on open files or threads, of the process or of the system, is reached; ::pw_last_error names it.
   */
  PW_ERROR_SYSTEM_LIMIT = 5129,
  /**
   * The identity of the file is ambiguous: its device and inode number are those of another open file, or change while the file is open.
   */
  PW_ERROR_AMBIGUOUS_FILE = 5130,
  /**
   * Of a kind that this interface has no number for yet; ::pw_last_error has the text.
   */
  PW_ERROR_OTHER = 5199,
};

/**
 * Whether the cache asks for huge pages for its memory: ::pw_cache_options_set_huge_pages.
 */
enum pw_huge_pages {
  /**
   * Where the system gives them to those who ask. The default.
   */
  PW_HUGE_PAGES_ADVISE = 0,
  /**
   * As the system is set up.
   */
  PW_HUGE_PAGES_SYSTEM = 1,
  /**
   * None.
   */
  PW_HUGE_PAGES_NEVER = 2,
};

/**
 * What does many transfers at once: ::pw_cache_options_set_engine.
 */
enum pw_engine {
  /**
   * io_uring; where there is none, threads. The default.
   */
  PW_ENGINE_AUTO = 0,
  /**
   * io_uring, or ::PW_ERROR_UNAVAILABLE.
   */
  PW_ENGINE_URING = 1,
  /**
   * Threads of the cache.
   */
  PW_ENGINE_WORKER = 2,
  /**
   * Each thread does what it gives.
   */
  PW_ENGINE_SYNC = 3,
};

/**
 * How bytes are going to be read: ::pw_advise.
 */
enum pw_advice {
  /**
   * In no particular way: streams are found out. The default.
   */
  PW_ADVICE_NORMAL = 0,
  /**
   * In order: twice as much is read ahead, from the first miss on.
   */
  PW_ADVICE_SEQUENTIAL = 1,
  /**
   * At random: nothing is read ahead.
   */
  PW_ADVICE_RANDOM = 2,
  /**
   * Once: what this handle reads for the first time stays as likely to be evicted as if it had not been read.
   */
  PW_ADVICE_ONCE = 3,
  /**
   * Soon: their reading begins now.
   */
  PW_ADVICE_SOON = 4,
  /**
   * Not soon: their pages are dropped, unless they have writes that the file does not have yet.
   */
  PW_ADVICE_NOT_SOON = 5,
};

/**
 * A cache: memory that holds pages of any number of files. A handle; what it points to is not an address.
 */
struct pw_cache;

/**
 * How a cache is made. A handle; what it points to is not an address.
 */
struct pw_cache_options;

/**
 * An open file. A handle; what it points to is not an address.
 */
struct pw_file;

/**
 * How a file is opened, beside the flags. A handle; what it points to is not an address.
 */
struct pw_open_options;

/**
 * Requests that are on their way, and their completions. A handle; what it points to is not an address.
 */
struct pw_queue;

/**
 * What a cache holds, and has done so far: ::pw_cache_stats. Hits are not counted, since a hit writes nothing that threads share.
 */
struct pw_cache_stats {
  /**
   * How many frames of 4 KiB the cache has.
   */
  uint64_t nr_frames;
  /**
   * How many of them are free.
   */
  uint64_t nr_free;
  /**
   * How many pages were read from files.
   */
  uint64_t nr_fills;
  /**
   * How many reads from files have failed.
   */
  uint64_t nr_failed_fills;
  /**
   * How many pages were evicted to make room.
   */
  uint64_t nr_evictions;
  /**
   * How many frames have bytes that are not known to be durable.
   */
  uint64_t nr_unclean;
};

/**
 * A page that is being edited: ::pw_edit_begin. Of the program's own memory, which it may copy and move; all copies are one and the same edit.
 */
struct pw_edit {
  /**
   * A copy of the page's bytes, to be changed. Null when the edit is over.
   */
  void *data;
  /**
   * How many there are: the size of a page, or less in the last one of the file.
   */
  size_t size;
  /**
   * The number of the page.
   */
  uint64_t page;
  /**
   * Not for the program: which edit it is.
   */
  uint64_t opaque;
};

/**
 * Is called before a page is given to the storage: ::pw_open_options_set_before_write.
 *
 * `user`: what the program has given with it. `page`: the number of the page. `lsn`: the highest log sequence number that was written to it, 0 for none.
 *
 * Returns: 0, or an `errno`: then the page is not written, and stays dirty.
 *
 * It must return: no exception, `longjmp` or end of the thread may lead out of it.
 */
typedef int (*pw_before_write)(void *user, uint64_t page, uint64_t lsn);

/**
 * Is called when the library does not use a pointer of the program's any more.
 */
typedef void (*pw_release_user)(void *user);

/**
 * A page on its way to the storage: ::pw_before_write_pages.
 */
struct pw_outgoing_page {
  /**
   * All bytes of the page: a copy, which the hook may change, and all of which is stored.
   */
  void *data;
  /**
   * How many there are: the size of a page.
   */
  size_t size;
  /**
   * How many of them are the file's: all of them, but for the last page of the file, whose other bytes are zeros.
   */
  size_t nr_used;
  /**
   * The number of the page.
   */
  uint64_t page;
  /**
   * The highest log sequence number that was written to it, 0 for none.
   */
  uint64_t lsn;
};

/**
 * Is called before pages are given to the storage, with their bytes: ::pw_open_options_set_page_hooks.
 *
 * `user`: what the program has given with it. `pages`: `count` of them, neighbours in ascending order, which are about to be written in one request; only during the call.
 *
 * A page with a byte that is not zero must be left with one, or the library refuses it: a stored page of zeros is one that nobody has written. The same page may go out
 * several times, in different versions, so one that was seen need not be stored.
 *
 * Returns: 0, or an `errno`: then none of the pages is written, and each is tried again alone. One that is refused alone stays dirty, and who writes back gets ::PW_ERROR_REFUSED.
 *
 * It must return: no exception, `longjmp` or end of the thread may lead out of it.
 */
typedef int (*pw_before_write_pages)(void *user, const struct pw_outgoing_page *pages, size_t count);

/**
 * Is called after a page was read from the storage, before anybody sees it: ::pw_open_options_set_page_hooks.
 *
 * `user`: what the program has given with it. `page`: the number of the page. `data`: what the storage has, `size` bytes, all of the page; what the hook leaves there is what readers
 * get, as far as the file reaches.
 *
 * Returns: 0, or an `errno`, `EBADMSG` say: then nobody sees the page, and who wanted it gets ::PW_ERROR_CORRUPT, with that in ::pw_last_errno. The next one has it read again.
 *
 * It must return: no exception, `longjmp` or end of the thread may lead out of it.
 */
typedef int (*pw_after_read)(void *user, uint64_t page, void *data, size_t size);

/**
 * Is called of a page of which the storage has zeros only: ::pw_open_options_set_page_hooks.
 *
 * `user`: what the program has given with it. `page`: the number of the page.
 *
 * Returns: 0 if it is one that nobody has written, which reads as zeros; or an `errno`, as of ::pw_after_read.
 *
 * It must return: no exception, `longjmp` or end of the thread may lead out of it.
 */
typedef int (*pw_hole)(void *user, uint64_t page);

/**
 * What is known of a file: ::pw_file_info.
 */
struct pw_file_info {
  /**
   * The size of the file in bytes, as far as the cache knows.
   */
  int64_t size;
  /**
   * The size of its pages in bytes.
   */
  uint64_t page_size;
  /**
   * To what transfers past the operating system's cache are aligned, in bytes; 0 if they go through that cache.
   */
  uint64_t direct_alignment;
  /**
   * How many pages have bytes that the storage was not given.
   */
  uint64_t nr_dirty;
  /**
   * How many pages the storage was given, and has not reported durable.
   */
  uint64_t nr_written;
  /**
   * Not used: 0.
   */
  uint64_t reserved;
  /**
   * Of all writes with a log sequence number that have returned and are not durable, none has a lower number: recovery may begin here.
   * `UINT64_MAX` if there is no such write.
   */
  uint64_t oldest_lsn;
};

/**
 * A pinned page: ::pw_pin. Of the program's own memory, which it may copy and move; all copies are one and the same pin.
 */
struct pw_page {
  /**
   * The page's bytes, which nobody changes until the page is unpinned. Null when it was.
   */
  const void *data;
  /**
   * How many there are: the size of a page, or less in the last one of the file.
   */
  size_t size;
  /**
   * The number of the page.
   */
  uint64_t page;
  /**
   * Not for the program: which pin it is.
   */
  uint64_t opaque[2];
};

/**
 * What has become of a request; what a ::pw_callback gets.
 */
struct pw_completion {
  /**
   * The request's number, which its submission has given.
   */
  uint64_t request;
  /**
   * ::PW_OK, or why it has failed; ::pw_last_error has the text during the callback.
   */
  int error;
  /**
   * The `errno` behind it, as ::pw_last_errno.
   */
  int error_errno;
  /**
   * How many bytes were read or written.
   */
  size_t size;
  /**
   * Of ::pw_submit_append: where the bytes begin. Else where they were asked for, or 0.
   */
  int64_t offset;
  /**
   * Of ::pw_submit_pin: the page, which the program gives back with ::pw_unpin. Else empty.
   */
  struct pw_page page;
};

/**
 * Is called once for each request, by a thread that is in ::pw_queue_run. It may do anything, also submit, cancel and run, but close the queue.
 *
 * `completion`: what has become of it; only during the call. `user`: what the submission was given.
 *
 * It must return: no exception, `longjmp` or end of the thread may lead out of it.
 */
typedef void (*pw_callback)(const struct pw_completion *completion, void *user);

/**
 * One of many reads: ::pw_read_many.
 */
struct pw_read_request {
  /**
   * What to read into. Buffers of one call may not overlap.
   */
  void *buf;
  /**
   * How many bytes.
   */
  size_t size;
  /**
   * Where to begin.
   */
  int64_t offset;
  /**
   * Gets how many bytes were read, as of ::pw_read.
   */
  size_t nr_read;
  /**
   * Gets ::PW_OK, or why nothing was read.
   */
  int error;
};

/**
 * A look at a page where it is, without a pin: ::pw_view_begin. Of the program's own memory, which it may copy and keep.
 */
struct pw_view {
  /**
   * The page's bytes, which **other threads may change at any time**: see ::pw_view_begin.
   */
  const void *data;
  /**
   * How many there are: the size of a page, or less in the last one of the file.
   */
  size_t size;
  /**
   * The number of the page.
   */
  uint64_t page;
  /**
   * The handle of the file.
   */
  struct pw_file *file;
  /**
   * Not for the program: what the page was when the view began.
   */
  uint64_t opaque[6];
};

/**
 * Bytes of a file: ::pw_prefetch.
 */
struct pw_range {
  /**
   * The first.
   */
  int64_t offset;
  /**
   * How many; 0 for all up to the end.
   */
  int64_t length;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the library, as "0.1.0".
 *
 * Returns: a text that is never null and stays for as long as the process runs.
 *
 * Threads: any, at any time.
 */
const char *pw_version(void);

/**
 * Makes options for a cache, all of them at their defaults.
 *
 * `options`: gets the handle, to be given back with ::pw_cache_options_free.
 *
 * Errors: ::PW_ERROR_ARGUMENT, ::PW_ERROR_LIMIT after 1023 of them.
 *
 * Threads: any.
 */
int pw_cache_options_new(struct pw_cache_options **options);

/**
 * Gives options back. Caches that were made with them stay as they are.
 *
 * Errors: ::PW_ERROR_HANDLE, ::PW_ERROR_BUSY while another thread uses them.
 *
 * Threads: any.
 */
int pw_cache_options_free(struct pw_cache_options *options);

/**
 * How much memory the cache may use, in bytes: pages, index and records together. The default is 64 MiB; at least 65 KiB, at most the memory of the
 * machine, which ::pw_cache_new checks.
 *
 * Errors: ::PW_ERROR_HANDLE.
 *
 * Threads: any.
 */
int pw_cache_options_set_capacity(struct pw_cache_options *options,
                                  uint64_t bytes);

/**
 * The page size of files that are opened without one: 4096, 8192, 16384, 32768 or 65536 bytes, which ::pw_cache_new checks. The default is 4096.
 *
 * Errors: ::PW_ERROR_HANDLE.
 *
 * Threads: any.
 */
int pw_cache_options_set_page_size(struct pw_cache_options *options,
                                   size_t bytes);

/**
 * Whether the cache asks for huge pages for its memory; they help reads at random places of a large cache, and cost memory in steps of 2 MiB.
 *
 * `huge_pages`: one of ::pw_huge_pages.
 *
 * Errors: ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT.
 *
 * Threads: any.
 */
int pw_cache_options_set_huge_pages(struct pw_cache_options *options,
                                    int huge_pages);

/**
 * How many bytes of all files together may be dirty, or written and not known to be durable. The default is half of the capacity; at most three quarters,
 * which ::pw_cache_new checks. A write to a file that has its share of them waits until pages of the file were made durable.
 *
 * Errors: ::PW_ERROR_HANDLE.
 *
 * Threads: any.
 */
int pw_cache_options_set_dirty_limit(struct pw_cache_options *options,
                                     uint64_t bytes);

/**
 * After how many milliseconds the cache makes written data durable by itself, in files that it writes back in the background. The default is 30000.
 *
 * Errors: ::PW_ERROR_HANDLE.
 *
 * Threads: any.
 */
int pw_cache_options_set_max_dirty_age(struct pw_cache_options *options,
                                       uint64_t milliseconds);

/**
 * How many milliseconds a write waits for a call of its file's storage, or of its hook, that does not return; then it fails with ::PW_ERROR_THROTTLED.
 * The default is 900.
 *
 * Errors: ::PW_ERROR_HANDLE.
 *
 * Threads: any.
 */
int pw_cache_options_set_stall_timeout(struct pw_cache_options *options,
                                       uint64_t milliseconds);

/**
 * For how many milliseconds the last close of a file tries again when the storage, or the hook, has failed. The default is 1000.
 *
 * Errors: ::PW_ERROR_HANDLE.
 *
 * Threads: any.
 */
int pw_cache_options_set_close_timeout(struct pw_cache_options *options,
                                       uint64_t milliseconds);

/**
 * What does many transfers at once: batches of reads, reading ahead, requests of queues, writing back. ::pw_cache_engine says what has come of it.
 *
 * `engine`: one of ::pw_engine.
 *
 * Errors: ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT.
 *
 * Threads: any.
 */
int pw_cache_options_set_engine(struct pw_cache_options *options,
                                int engine);

/**
 * Makes a cache. Its memory is reserved now, and used as pages are read.
 *
 * `options`: null for the defaults; they may be given back, or used for another cache, afterwards.
 *
 * `cache`: gets the handle, to be given back with ::pw_cache_close.
 *
 * Errors: ::PW_ERROR_CONFIG and ::PW_ERROR_PAGE_SIZE when a setting is out of its range, ::PW_ERROR_OUT_OF_MEMORY, ::PW_ERROR_UNAVAILABLE when there is no
 * such engine, ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT, ::PW_ERROR_LIMIT after 1023 caches.
 *
 * Threads: any.
 */
int pw_cache_new(const struct pw_cache_options *options,
                 struct pw_cache **cache);

/**
 * Gives a cache up. Its files stay open, and its memory is there, until the last of them is closed too; no more can be opened.
 *
 * Errors: ::PW_ERROR_HANDLE, ::PW_ERROR_BUSY while another thread uses the handle.
 *
 * Threads: any.
 */
int pw_cache_close(struct pw_cache *cache);

/**
 * What the cache holds, and has done so far.
 *
 * `stats`: is filled in. `size`: `sizeof(struct pw_cache_stats)`; so a program works with a later library, whose structure has more fields at its end.
 *
 * Errors: ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT.
 *
 * Threads: any.
 */
int pw_cache_stats(struct pw_cache *cache,
                   struct pw_cache_stats *stats,
                   size_t size);

/**
 * Which engine does many transfers at once, and why it is this one. It is made now, if it was not used yet.
 *
 * `engine`: gets one of ::pw_engine, never ::PW_ENGINE_AUTO.
 *
 * `why`: null, or gets the reason in words, up to `size` bytes with the zero at the end; what is longer is cut.
 *
 * Errors: ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT.
 *
 * Threads: any.
 */
int pw_cache_engine(struct pw_cache *cache, int *engine, char *why, size_t size);

/**
 * Evicts pages that are not pinned, those first that were not read lately.
 *
 * `nr_pages`: how many at the most. `nr_evicted`: null, or gets how many it were.
 *
 * Errors: ::PW_ERROR_HANDLE.
 *
 * Threads: any.
 */
int pw_cache_reclaim(struct pw_cache *cache, size_t nr_pages, size_t *nr_evicted);

/**
 * Begins to edit a page: gives a copy of its bytes, which ::pw_edit_commit puts in its place. Until then readers see the old page, and other threads that want to write to
 * it wait. The thread itself gets ::PW_ERROR_DEADLOCK where it would wait for its own edit.
 *
 * `page_number`: the page, which is in the file. `flags`: 0 or ::PW_EDIT_TRY.
 *
 * `edit`: is filled in; to be ended by ::pw_edit_commit or ::pw_edit_cancel, in the same thread.
 *
 * Errors: ::PW_ERROR_LOCKED with ::PW_EDIT_TRY, ::PW_ERROR_DEADLOCK if this thread edits the page already, ::PW_ERROR_READ_ONLY, ::PW_ERROR_THROTTLED, ::PW_ERROR_LIMIT after 16383 edits, and those of
 * ::pw_pin.
 *
 * Threads: any, several with one file.
 */
int pw_edit_begin(struct pw_file *file,
                  uint64_t page_number,
                  int flags,
                  struct pw_edit *edit);

/**
 * Puts the edited bytes in place of the page, and keeps the page locked: all readers see them, and other writers wait until ::pw_edit_commit. So who edits several
 * pages says in which order readers get to see them. `data` is to be read only from now on.
 *
 * `edit`: an edit that is not published yet. `lsn`: the log sequence number of the change, 0 for none.
 *
 * Errors: ::PW_ERROR_THREAD in another thread, ::PW_ERROR_HANDLE if it is over, ::PW_ERROR_ARGUMENT if it is published already.
 *
 * Threads: the one that has begun the edit.
 */
int pw_edit_publish(struct pw_edit *edit,
                    uint64_t lsn);

/**
 * Ends an edit: puts the edited bytes in place of the page, if ::pw_edit_publish has not, and lets other writers in. The bytes are written as by ::pw_write: all readers see
 * them now, and they are durable after a sync.
 *
 * `edit`: is emptied. `lsn`: the log sequence number of the change, 0 for none; of no effect after ::pw_edit_publish.
 *
 * Errors: ::PW_ERROR_THREAD in another thread, ::PW_ERROR_HANDLE if it is over, ::PW_ERROR_ARGUMENT.
 *
 * Threads: the one that has begun the edit.
 */
int pw_edit_commit(struct pw_edit *edit,
                   uint64_t lsn);

/**
 * Ends an edit, and leaves the page as it is.
 *
 * `edit`: is emptied.
 *
 * Errors: ::PW_ERROR_THREAD in another thread, ::PW_ERROR_HANDLE if it is over, ::PW_ERROR_ARGUMENT if it is published: that cannot be taken back.
 *
 * Threads: the one that has begun the edit.
 */
int pw_edit_cancel(struct pw_edit *edit);

/**
 * The text of an error code.
 *
 * `code`: what a call has returned. For a number that is no code the text says so.
 *
 * Returns: a text that is never null and stays for as long as the process runs.
 *
 * Threads: any, at any time.
 */
const char *pw_strerror(int code);

/**
 * What this thread was told last, in words: the operation, the path, what is wrong, and the causes, in one line.
 *
 * Calls that succeed leave it as it is.
 *
 * Returns: a text that is never null, and stays until the next error of this thread, or until the thread ends. "no error" if there was none.
 *
 * Threads: any; each has its own.
 */
const char *pw_last_error(void);

/**
 * The code that this thread was told last; ::PW_OK if there was none. Calls that succeed leave it as it is.
 *
 * Threads: any; each has its own.
 */
int pw_last_code(void);

/**
 * The `errno` behind ::pw_last_code: that of the system call that has failed, `ENOSPC` for a full disk say; or else the closest one. 0 if there was
 * no error. Calls that succeed leave it as it is.
 *
 * Threads: any; each has its own.
 */
int pw_last_errno(void);

/**
 * Makes options for files, all of them at their defaults. They may be used for any number of files, also of several caches.
 *
 * `options`: gets the handle, to be given back with ::pw_open_options_free.
 *
 * Errors: ::PW_ERROR_ARGUMENT, ::PW_ERROR_LIMIT after 4095 of them.
 *
 * Threads: any.
 */
int pw_open_options_new(struct pw_open_options **options);

/**
 * Gives options back. Files that were opened with them stay as they are, and keep their hook.
 *
 * Errors: ::PW_ERROR_HANDLE, ::PW_ERROR_BUSY while another thread uses them.
 *
 * Threads: any.
 */
int pw_open_options_free(struct pw_open_options *options);

/**
 * The size of the file's pages: 4096, 8192, 16384, 32768 or 65536 bytes, or 0 for that of the open file, or else the cache's, which is the default.
 * ::pw_open checks it.
 *
 * Errors: ::PW_ERROR_HANDLE.
 *
 * Threads: any.
 */
int pw_open_options_set_page_size(struct pw_open_options *options,
                                  size_t bytes);

/**
 * The permissions of a file that is created, as `open` has them: those of the process's mask (`umask`) are taken away. The default is 0666; a file that is there keeps its own.
 *
 * Errors: ::PW_ERROR_HANDLE.
 *
 * Threads: any.
 */
int pw_open_options_set_mode(struct pw_open_options *options,
                             uint32_t bits);

/**
 * A hook that is called before a page of the file is given to the storage, for write-ahead logs: it makes the log durable up to the page's log
 * sequence number, or refuses the page. It makes the options such for writing.
 *
 * `hook`: the function; null for none. `user`: what it is called with.
 *
 * `release`: null, or is called with `user` once nobody calls the hook any more: neither these options nor a file have it.
 *
 * Who calls the hook: a thread that asks for this very file (flush, sync, a close; with page
 * hooks also a new size or a write past the end), or a thread of the
 * cache; several at once. No reader does. It may use other files of the cache, a log for example. Of its own file it must not ask for anything that
 * waits for writing back: that is ::PW_ERROR_DEADLOCK.
 *
 * Each call of this function makes another hook. To open a file a second time while it is open, use the same options, or options without a
 * hook; with another one ::pw_open fails with ::PW_ERROR_OPTIONS_MISMATCH.
 *
 * Errors: ::PW_ERROR_HANDLE; then `release` is not called.
 *
 * Threads: any.
 */
int pw_open_options_set_before_write(struct pw_open_options *options,
                                     pw_before_write hook,
                                     void *user,
                                     pw_release_user release);

/**
 * Hooks on the bytes of pages, on their way to the storage and back: checksums, encryption, compression within the page.
 *
 * The file is stored in whole pages then, and only who opens it with hooks that fit reads it well. Who uses the cache never sees what is stored: `after_read` gives
 * back the bytes that `before_write` was given. Room for a checksum or a tag is in the page: the program leaves some bytes of each page alone, zeros for
 * example, which `before_write` replaces and `after_read` restores. It makes no options for writing: readers need the hooks as well.
 *
 * `before_write`, `after_read`: the functions; both null for none. `hole`: null, or is asked of pages of which the storage has zeros only, which nobody has written or of which everything
 * was lost; without it they are zeros. `user`: what they are called with.
 *
 * `release`: null, or is called with `user` once nobody calls the hooks any more: neither these options nor a file have them.
 *
 * Who calls them: `before_write` whoever writes the file back, a thread of the program or of the cache, one at a time for a file; after the hook of
 * ::pw_open_options_set_before_write, if there is one too. `after_read` and `hole` the thread that has missed a page, or one of the cache, several at once. They keep who wants the
 * page waiting, and must not use any cache in a way that may wait: that is ::PW_ERROR_DEADLOCK. Calls with the file that hit are fine, but for ::pw_close, which is ::PW_ERROR_BUSY.
 *
 * Each call of this function makes other hooks. To open a file a second time while it is open, use the same options, or options without hooks; with others ::pw_open fails
 * with ::PW_ERROR_OPTIONS_MISMATCH.
 *
 * Errors: ::PW_ERROR_HANDLE; ::PW_ERROR_ARGUMENT if one of `before_write` and `after_read` is null, or both are and `hole` is not; then `release` is not called.
 *
 * Threads: any.
 */
int pw_open_options_set_page_hooks(struct pw_open_options *options,
                                   pw_before_write_pages before_write,
                                   pw_after_read after_read,
                                   pw_hole hole,
                                   void *user,
                                   pw_release_user release);

/**
 * Opens a file. All handles of one file share its pages, whatever name it was opened by.
 *
 * `path`: as the system has it, in any encoding. `flags`: 0 for reading only, or any of `PW_OPEN_...`. `options`: null for the defaults.
 *
 * `file`: gets the handle, to be given back with ::pw_close.
 *
 * Errors: ::PW_ERROR_NOT_FOUND, ::PW_ERROR_PERMISSION, ::PW_ERROR_PATH, ::PW_ERROR_NOT_A_FILE, ::PW_ERROR_SYSTEM_LIMIT and ::PW_ERROR_IO as the system says;
 * ::PW_ERROR_EXISTS with ::PW_OPEN_CREATE_NEW; ::PW_ERROR_AMBIGUOUS_FILE when the file system gives it the number of another file that is open; ::PW_ERROR_FILE_TOO_LARGE, ::PW_ERROR_PAGE_SIZE; ::PW_ERROR_PAGE_SIZE_MISMATCH and ::PW_ERROR_OPTIONS_MISMATCH when the file is
 * open, and has others; ::PW_ERROR_OPEN_ELSEWHERE when others have it open for writing, or this cache has it open for reading only;
 * ::PW_ERROR_UNAVAILABLE, ::PW_ERROR_FORKED, ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT, ::PW_ERROR_LIMIT after 65535 files.
 *
 * Threads: any.
 */
int pw_open(struct pw_cache *cache,
            const char *path,
            int flags,
            const struct pw_open_options *options,
            struct pw_file **file);

/**
 * Another handle of the same open file, which may do what the first may. Each handle has its own streams of reading ahead, its own advice, and is told of each
 * failure to write back.
 *
 * `file`: the first handle. `other`: gets the new one, to be given back with ::pw_close.
 *
 * Errors: ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT, ::PW_ERROR_LIMIT.
 *
 * Threads: any.
 */
int pw_dup(struct pw_file *file,
           struct pw_file **other);

/**
 * Makes everything durable that was written, if the file is open for writing, and gives the handle up. If the storage, or the hook, fails, it tries
 * again for a second (::pw_cache_options_set_close_timeout).
 *
 * If this fails the handle is as it was, and nothing is lost: close it again when the storage works. A program that ends without closing loses what
 * was not synced.
 *
 * Errors: ::PW_ERROR_BUSY at once, and nothing was done, while pages are pinned or edited by this handle, requests with it are on their way, or another thread is in a
 * call with it; those of ::pw_sync_all; ::PW_ERROR_UNAVAILABLE if the system refuses `membarrier(2)` after it has granted it; ::PW_ERROR_FORKED, ::PW_ERROR_HANDLE.
 *
 * Threads: any. A call of another thread with the handle has its effect, or ::PW_ERROR_BUSY or ::PW_ERROR_HANDLE.
 */
int pw_close(struct pw_file *file);

/**
 * What is known of a file, and what of it is not durable.
 *
 * `info`: is filled in. `size`: `sizeof(struct pw_file_info)`; so a program works with a later library, whose structure has more fields at its end.
 *
 * Errors: ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT.
 *
 * Threads: any.
 */
int pw_file_info(struct pw_file *file,
                 struct pw_file_info *info,
                 size_t size);

/**
 * The size of the file in bytes, as far as the cache knows.
 *
 * `size`: gets it.
 *
 * Errors: ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT.
 *
 * Threads: any.
 */
int pw_size(struct pw_file *file, int64_t *size);

/**
 * Reads the file's present size from the storage, and adopts it: for a file that others change. Pages that a change of size has made wrong are dropped.
 *
 * `size`: null, or gets it.
 *
 * Errors: ::PW_ERROR_IO, ::PW_ERROR_FILE_TOO_LARGE when the file has grown to more than four times the size that it was opened with, and by more than 64 MiB (close all
 * its handles, and open it anew); ::PW_ERROR_FORKED, ::PW_ERROR_HANDLE.
 *
 * Threads: any.
 */
int pw_refresh(struct pw_file *file,
               int64_t *size);

/**
 * Makes a queue.
 *
 * `queue`: gets the handle, to be given back with ::pw_queue_close.
 *
 * Errors: ::PW_ERROR_SYSTEM_LIMIT when there is no descriptor left, ::PW_ERROR_IO, ::PW_ERROR_ARGUMENT, ::PW_ERROR_LIMIT after 1023 queues.
 *
 * Threads: any.
 */
int pw_queue_new(struct pw_queue **queue);

/**
 * Gives a queue back.
 *
 * Errors: ::PW_ERROR_BUSY, and nothing was done, while it has requests whose callback was not called yet, or a thread is in a call with it; ::PW_ERROR_HANDLE.
 *
 * Threads: any.
 */
int pw_queue_close(struct pw_queue *queue);

/**
 * A descriptor that is readable when ::pw_queue_run has something to do: for `poll` and `epoll`. It is the queue's; nothing else may be done with it.
 *
 * `fd`: gets it.
 *
 * Errors: ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT.
 *
 * Threads: any.
 */
int pw_queue_fd(struct pw_queue *queue,
                int *fd);

/**
 * Goes on with requests, and calls the callbacks of those that are done.
 *
 * `max`: how many callbacks at the most. `timeout`: how many milliseconds to wait for the first one; 0 for not at all, -1 for as long as it takes.
 *
 * `nr_done`: null, or gets how many were called; 0 when the time is over.
 *
 * Errors: ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT, ::PW_ERROR_IO. Those of requests are told to their callbacks.
 *
 * Threads: any, several with one queue.
 */
int pw_queue_run(struct pw_queue *queue,
                 size_t max,
                 int timeout,
                 size_t *nr_done);

/**
 * Cancels a request: its callback gets ::PW_ERROR_CANCELED. What the storage, or a thread of the cache, has begun goes on; a write, an append or a sync may be done all the
 * same, or in part. The buffer is the library's until the callback.
 *
 * `request`: the number that the submission has given.
 *
 * Errors: ::PW_ERROR_HANDLE, of the queue, or if the request is none, or done: then its callback gets, or has got, what has become of it.
 *
 * Threads: any.
 */
int pw_queue_cancel(struct pw_queue *queue,
                    uint64_t request);

/**
 * Reads as ::pw_read, without waiting. The callback gets how many bytes were read.
 *
 * `buf`: gets the bytes; it is the library's until the callback. `request`: null, or gets the number of the request. `callback`, `user`: what is called when it is done.
 *
 * Errors: ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT, ::PW_ERROR_OUT_OF_MEMORY; then there is no callback. All else goes to the callback.
 *
 * Threads: any, several with one queue and one file. Until the callback ::pw_close of the file is ::PW_ERROR_BUSY.
 */
int pw_submit_read(struct pw_queue *queue,
                   struct pw_file *file,
                   void *buf,
                   size_t size,
                   int64_t offset,
                   pw_callback callback,
                   void *user,
                   uint64_t *request);

/**
 * Writes as ::pw_write, without waiting. The callback gets how many bytes were written.
 *
 * `buf`: is copied; the program has it back when this returns. `request`, `callback`, `user`: as of ::pw_submit_read.
 *
 * Errors: as ::pw_submit_read.
 *
 * Threads: as ::pw_submit_read.
 */
int pw_submit_write(struct pw_queue *queue,
                    struct pw_file *file,
                    const void *buf,
                    size_t size,
                    int64_t offset,
                    pw_callback callback,
                    void *user,
                    uint64_t *request);

/**
 * Appends as ::pw_append, without waiting. The callback gets where the bytes begin. Several that are on their way at once may be appended in any order.
 *
 * `buf`: is copied; the program has it back when this returns. `request`, `callback`, `user`: as of ::pw_submit_read.
 *
 * Errors: as ::pw_submit_read.
 *
 * Threads: as ::pw_submit_read.
 */
int pw_submit_append(struct pw_queue *queue,
                     struct pw_file *file,
                     const void *buf,
                     size_t size,
                     pw_callback callback,
                     void *user,
                     uint64_t *request);

/**
 * Syncs as ::pw_sync_data, without waiting: what was written before this call.
 *
 * `request`, `callback`, `user`: as of ::pw_submit_read.
 *
 * Errors: as ::pw_submit_read.
 *
 * Threads: as ::pw_submit_read.
 */
int pw_submit_sync_data(struct pw_queue *queue,
                        struct pw_file *file,
                        pw_callback callback,
                        void *user,
                        uint64_t *request);

/**
 * Pins as ::pw_pin, without waiting. The callback gets the page.
 *
 * `page_number`: the page. `request`, `callback`, `user`: as of ::pw_submit_read.
 *
 * Errors: as ::pw_submit_read.
 *
 * Threads: as ::pw_submit_read.
 */
int pw_submit_pin(struct pw_queue *queue,
                  struct pw_file *file,
                  uint64_t page_number,
                  pw_callback callback,
                  void *user,
                  uint64_t *request);

/**
 * Reads bytes of a file. Reads of cached pages write nothing that threads share, and take no lock.
 *
 * A read within one page is atomic: it gives the bytes as they were at one moment. A read of several pages is so for each of them.
 *
 * `buf`: gets the bytes; may be null if `size` is 0. `offset`: where to begin.
 *
 * `nr_read`: gets how many bytes were read: `size`, or fewer where the file ends, 0 at or past the end. If some pages could be read before one failed, they are
 * counted, and the next read reports the failure. Bytes of `buf` beyond are any, also after an error.
 *
 * Errors: ::PW_ERROR_IO, ::PW_ERROR_CORRUPT when the hook on bytes refuses a page, ::PW_ERROR_TRUNCATED when the file has become shorter behind the cache's back, ::PW_ERROR_OUT_OF_FRAMES when every page is pinned,
 * ::PW_ERROR_FORKED, ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT.
 *
 * Threads: any, several with one file.
 */
int pw_read(struct pw_file *file,
            void *buf,
            size_t size,
            int64_t offset,
            size_t *nr_read);

/**
 * Does many reads, each as ::pw_read. Those of cached pages wait for memory together, sixteen at a time; missing pages are read from the file at once, as many as
 * the engine takes. They are done in any order.
 *
 * `requests`: `count` of them; `nr_read` and `error` of each are filled in.
 *
 * Errors: the first error of a request, whose text ::pw_last_error has; the others were done all the same. ::PW_ERROR_ARGUMENT when a buffer is null, two overlap, or
 * an offset is negative, and ::PW_ERROR_HANDLE: then nothing was done.
 *
 * Threads: any, several with one file.
 */
int pw_read_many(struct pw_file *file,
                 struct pw_read_request *requests,
                 size_t count);

/**
 * Pins a page: its bytes are read where they are. They do not change while it is pinned, and stay in memory, whatever is written to the file.
 *
 * `page_number`: the page; its first byte is the number times the page size.
 *
 * `page`: is filled in; to be given back with ::pw_unpin.
 *
 * Errors: ::PW_ERROR_OUT_OF_RANGE, ::PW_ERROR_TOO_MANY_PINS, ::PW_ERROR_LIMIT after 1048576 pins, and those of ::pw_read.
 *
 * Threads: any, several with one file.
 */
int pw_pin(struct pw_file *file,
           uint64_t page_number,
           struct pw_page *page);

/**
 * Gives a pinned page back. Its bytes must not be used any more.
 *
 * `page`: what ::pw_pin has filled in, or a copy of it; is emptied.
 *
 * Errors: ::PW_ERROR_HANDLE if it was given back already, by this copy or another; ::PW_ERROR_FORKED in a child; ::PW_ERROR_ARGUMENT.
 *
 * Threads: any, also another than the one that has pinned it.
 */
int pw_unpin(struct pw_page *page);

/**
 * Begins to look at a page where it is, without a pin: nothing is copied, and nothing written that threads share. ::pw_view_validate says afterwards whether what was
 * read was the page's.
 *
 * Between the two, other threads may write to the bytes at any time, or put another page in their place. So:
 *
 * - Load them as what they are: memory that others write to. For integers, `__atomic_load_n(p, __ATOMIC_RELAXED)` of GCC and Clang, or a `volatile` access; for
 *   more, ::pw_view_copy. A plain `memcpy` or `strcmp` is a data race for the language.
 * - Do not believe what was loaded before it was validated: check an offset or a length against `size` before it is used, and bound every loop.
 * - Let nothing that was loaded out of the look (an answer, a write, a free) before ::pw_view_validate has returned ::PW_OK.
 *
 * The memory can be read, whatever becomes of the page, as long as the handle is open; not afterwards. Nothing has to be given back.
 *
 * `page_number`: as of ::pw_pin. `view`: is filled in.
 *
 * Errors: as ::pw_pin, but for those of pins.
 *
 * Threads: any, several with one file.
 */
int pw_view_begin(struct pw_file *file,
                  uint64_t page_number,
                  struct pw_view *view);

/**
 * Whether the page has been what it was all the time since ::pw_view_begin: then everything that was loaded of the view is the page's, of one moment.
 *
 * It may be asked as often as one likes, and of a view that was kept for long: so a program goes from page to page, a tree's, and asks afterwards whether the way
 * was right. A page that has changed is never taken for unchanged; now and then an unchanged one is taken for changed. Written to, evicted, cut off and moved
 * are changes; read, pinned and written back are none.
 *
 * `view`: is not changed.
 *
 * Returns: ::PW_OK if it is unchanged.
 *
 * Errors: ::PW_ERROR_CHANGED; ::PW_ERROR_CHANGING, when somebody has just claimed the page, and may be about to change it: that lasts a moment; ::PW_ERROR_HANDLE
 * if the file was closed since; ::PW_ERROR_ARGUMENT.
 *
 * Threads: any, several with one view.
 */
int pw_view_validate(const struct pw_view *view);

/**
 * Copies bytes of a view, and validates it: if this returns ::PW_OK, they are the page's, of the moment at which the view began and of this one.
 *
 * `offset`: in the page. `buf`: gets `size` bytes. After an error it has any bytes.
 *
 * Errors: ::PW_ERROR_ARGUMENT when they are not all in the view; those of ::pw_view_validate; and those of ::pw_read, if the page has to be looked up again, which it
 * is: the bytes are never taken from memory that is no page's.
 *
 * Threads: any, several with one view.
 */
int pw_view_copy(const struct pw_view *view,
                 size_t offset,
                 void *buf,
                 size_t size);

/**
 * Says how bytes are going to be read, as `posix_fadvise`. The first four of ::pw_advice are said of the handle, whatever the range, and hold until something
 * else is said; the others are done at once.
 *
 * `offset`, `length`: the bytes; a length of 0 is up to the end. `advice`: one of ::pw_advice.
 *
 * Errors: ::PW_ERROR_ARGUMENT, ::PW_ERROR_FORKED, ::PW_ERROR_HANDLE.
 *
 * Threads: any, several with one file.
 */
int pw_advise(struct pw_file *file,
              int64_t offset,
              int64_t length,
              int advice);

/**
 * Begins to read the pages of some ranges that are not in the cache, all at once, and does not wait for them. It is a hint: what would take waiting is not read, nor what is
 * more than an eighth of the cache in one call, or past the end.
 *
 * `ranges`: `count` of them. `nr_pages`: null, or gets how many pages it has begun to read.
 *
 * Errors: ::PW_ERROR_ARGUMENT, ::PW_ERROR_FORKED, ::PW_ERROR_HANDLE.
 *
 * Threads: any, several with one file.
 */
int pw_prefetch(struct pw_file *file,
                const struct pw_range *ranges,
                size_t count,
                size_t *nr_pages);

/**
 * Drops cached pages, so that the next read fetches them from the file: for a file that others change. Pinned pages keep their bytes. Pages with writes that the file
 * does not have yet stay.
 *
 * `offset`, `length`: the bytes, of which whole pages are dropped; a length of 0 is up to the end.
 *
 * Errors: ::PW_ERROR_ARGUMENT, ::PW_ERROR_HANDLE.
 *
 * Threads: any, several with one file.
 */
int pw_invalidate(struct pw_file *file,
                  int64_t offset,
                  int64_t length);

/**
 * Writes bytes to a file. All readers of the cache see them after the call; they are durable after ::pw_sync_data.
 *
 * A write within one page is atomic: readers see all of it or nothing. A write past the end makes the file longer, and the gap reads as zeros.
 *
 * `buf`: `size` bytes; may be null if `size` is 0. `offset`: where to begin.
 *
 * `nr_written`: gets how many were written: all, unless something failed after the first page; then the next write reports the error.
 *
 * Errors: ::PW_ERROR_READ_ONLY, ::PW_ERROR_FILE_TOO_LARGE, ::PW_ERROR_THROTTLED when the file has as many dirty pages as it may have, and they cannot be written
 * back; ::PW_ERROR_OUT_OF_FRAMES when every page is pinned or cannot be written back; ::PW_ERROR_DEADLOCK, and those of ::pw_read, since a write to a part of a page reads
 * the page first.
 *
 * Threads: any, several with one file.
 */
int pw_write(struct pw_file *file,
             const void *buf,
             size_t size,
             int64_t offset,
             size_t *nr_written);

/**
 * As ::pw_write, with the log sequence number of the write; 0 for none. Before a page is given to the storage, the hook gets the highest number of that page
 * (::pw_open_options_set_before_write): how far the log has to be durable then.
 *
 * Errors: as ::pw_write.
 *
 * Threads: any, several with one file.
 */
int pw_write_lsn(struct pw_file *file,
                 const void *buf,
                 size_t size,
                 int64_t offset,
                 uint64_t lsn,
                 size_t *nr_written);

/**
 * Writes bytes at the end of a file, all of them or nothing.
 *
 * `offset`: null, or gets where they begin. Where they end is a good log sequence number for a record.
 *
 * Errors: as ::pw_write; ::PW_ERROR_OUT_OF_FRAMES at once when `size` is more than one call can append, a quarter of the cache; ::pw_last_error says how much.
 *
 * Threads: any, several with one file.
 */
int pw_append(struct pw_file *file,
              const void *buf,
              size_t size,
              int64_t *offset);

/**
 * As ::pw_append, with the log sequence number of the write, as ::pw_write_lsn.
 *
 * Errors: as ::pw_append.
 *
 * Threads: any, several with one file.
 */
int pw_append_lsn(struct pw_file *file, const void *buf, size_t size, uint64_t lsn, int64_t *offset);

/**
 * Gives a file a new size, as `ftruncate`. Bytes past it are gone; new bytes are zeros. Pinned pages keep their bytes.
 *
 * Errors: ::PW_ERROR_READ_ONLY, ::PW_ERROR_FILE_TOO_LARGE, ::PW_ERROR_IO, ::PW_ERROR_DEADLOCK, ::PW_ERROR_FORKED, ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT.
 *
 * Threads: any, several with one file.
 */
int pw_set_size(struct pw_file *file,
                int64_t size);

/**
 * Gives dirty pages to the storage. They are not durable before a sync.
 *
 * `offset`, `length`: of the pages with any of these bytes; a length of 0 is up to the end. `nr_pages`: null, or gets how many it were.
 *
 * Errors: ::PW_ERROR_READ_ONLY, ::PW_ERROR_IO, ::PW_ERROR_REFUSED; the pages are still dirty then. ::PW_ERROR_DEADLOCK, ::PW_ERROR_FORKED, ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT.
 *
 * Threads: any, several with one file.
 */
int pw_flush(struct pw_file *file,
             int64_t offset,
             int64_t length,
             size_t *nr_pages);

/**
 * Makes durable everything that was written to the file before the call, and the size that reading it takes, as `fdatasync`.
 *
 * After an error the state of everything written since the last successful sync is unknown. All of it is dirty again, and the next sync writes it again. Every handle is told
 * once of each failure, also of those in the background.
 *
 * Errors: ::PW_ERROR_READ_ONLY; ::PW_ERROR_IO (with `ENOSPC` in ::pw_last_errno for a full disk); ::PW_ERROR_REFUSED by
 * the hook; ::PW_ERROR_TOO_MANY_PINS, ::PW_ERROR_DEADLOCK, ::PW_ERROR_FORKED, ::PW_ERROR_HANDLE.
 *
 * Threads: any, several with one file: they share syncs.
 */
int pw_sync_data(struct pw_file *file);

/**
 * As ::pw_sync_data, and makes durable what else the system keeps of the file, as `fsync`.
 *
 * Errors: as ::pw_sync_data.
 *
 * Threads: any, several with one file.
 */
int pw_sync_all(struct pw_file *file);

/**
 * Makes durable what was written before the call to the pages that have any of these bytes.
 *
 * `offset`, `length`: the bytes; a length of 0 is up to the end.
 *
 * Errors: as ::pw_sync_data, and ::PW_ERROR_ARGUMENT.
 *
 * Threads: any, several with one file.
 */
int pw_sync_range(struct pw_file *file, int64_t offset, int64_t length);

/**
 * Drops cached pages with everything written to them since their last writeback: the next read gets what the file has.
 *
 * `offset`, `length`: the bytes, of which whole pages are dropped; a length of 0 is up to the end.
 *
 * Errors: ::PW_ERROR_READ_ONLY, ::PW_ERROR_IO, and any failure to write back that the handle was not told of yet: nothing is dropped then. ::PW_ERROR_DEADLOCK,
 * ::PW_ERROR_FORKED, ::PW_ERROR_HANDLE, ::PW_ERROR_ARGUMENT.
 *
 * Threads: any, several with one file.
 */
int pw_discard(struct pw_file *file,
               int64_t offset,
               int64_t length);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PAGEWELL_H */
