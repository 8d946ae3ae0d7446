// SPDX-License-Identifier: GPL-2.0-only
/*
 * A bounded random caller of the system calls that the series touches, for the guests of
 * `lab deep`.
 *
 *	random SEED SECONDS CALLERS calm|faults
 *
 * Each caller, and each child that it forks, has areas of memory (small anonymous ones,
 * one for large folios, shared and private mappings of files that all share, HugeTLB) and
 * two files of its own (tmpfs, with large folios, and ramfs). It knows what every byte of
 * them has to be, and looks: a page begins with a key drawn for it alone, so that one of
 * somebody else, or an older one, is noticed. Where others write at the same time, a byte
 * is what belongs at its place of the file, or 0. What one step does depends on the seed,
 * the caller and the number of the step, which a failure names.
 *
 * Another task does what root may do to all of them: it takes memory offline and brings
 * it back, changes the number of huge pages, reclaims, compacts, merges, and moves the
 * callers between the memory nodes.
 *
 * With "faults" allocations of the callers fail now and then (failslab, fail_page_alloc),
 * and a call may end early; what it did has to be right all the same.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE		25
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED	24
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ	22
#define MADV_POPULATE_WRITE	23
#endif
#ifndef MADV_COLD
#define MADV_COLD		20
#define MADV_PAGEOUT		21
#endif
#define MADV_HARD_POISON	100
#define MADV_SOFT_POISON	101

#define MPOL_DEFAULT		0
#define MPOL_BIND		2
#define MPOL_MF_MOVE		2
#define MPOL_MF_MOVE_ALL	4

#define GOLDEN			0x9e3779b97f4a7c15ull
#define ONES			0x0101010101010101ull
#define PAGE			4096u
#define HUGE_BYTES		(2u << 20)
#define HUGE_PAGES		(HUGE_BYTES / PAGE)

#define NR_AREAS		7
#define AREA_PAGES		64
#define MAX_PAGES		(2 * HUGE_PAGES)
#define NR_FILES		4
#define FILE_PAGES		64
#define OWN_BYTES		(32 * PAGE)
#define RACE_PAGES		8
#define RACE_ROUNDS		60
#define NR_OWN			2
#define MAX_CHILDREN		3
#define MAX_DEPTH		2
#define CHILD_STEPS		40
#define MAX_CALLERS		64

/* No result that the guest's init tries again. */
#define FOUND			9
#define SECONDS_TO_END		150
/* A kind of call that should have come that often has to have come. */
#define OFTEN			20

enum kind { PRIVATE, LARGE, SHARED, OVER_FILE, HUGETLB, NR_KINDS };
static const char *const kind_names[] = { "anonymous", "large", "shared", "over-file", "hugetlb" };

/* What may be in a page, other than what its key says. */
enum { MAYBE_ZERO = 1, UNKNOWN = 2 };

struct area {
	enum kind kind;
	char *at;
	unsigned int pages, unit;
	int file;
	uint32_t key[MAX_PAGES];
	uint8_t may[MAX_PAGES];
};

struct own {
	int fd;
	size_t size;
	unsigned char bytes[OWN_BYTES];
};

/* Of all tasks together. */
struct counts {
	unsigned long steps, shakes, pages, reads, forks, refused, offline, online, busy, pools, moved;
	unsigned long ops[64];
};

static struct area areas[NR_AREAS];
static struct own own[NR_OWN];
static struct counts *counts;
static int files[NR_FILES];
static pid_t children[MAX_CHILDREN];
static char buffer[OWN_BYTES + 2 * PAGE] __attribute__((aligned(4096)));

static unsigned long long seed;
static uint64_t state, deadline;
static char me[64] = "main";
static unsigned int step, depth, nr_forked, nr_poisoned;
static const char *op = "begin";
static int faults, fail_fd = -1;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static uint64_t mix(uint64_t x)
{
	x += GOLDEN;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static uint64_t rnd(void)
{
	return mix(state++);
}

static unsigned int below(unsigned int n)
{
	return n ? (rnd() >> 16) % n : 0;
}

static int once_in(unsigned int n)
{
	return below(n) == 0;
}

/* The step's choices depend on nothing that happened before it. */
static void begin_step(void)
{
	uint64_t x = mix(seed);

	for (const char *at = me; *at; at++)
		x = mix(x ^ *at);
	state = mix(x ^ step) & ~0xffffull;
}

static void add(unsigned long *count, unsigned long n)
{
	__atomic_fetch_add(count, n, __ATOMIC_RELAXED);
}

/* In one write: others may say something, too. */
static void __attribute__((format(printf, 1, 2), noreturn)) wrong(const char *format, ...)
{
	char line[400];
	va_list args;
	int n = snprintf(line, sizeof(line), "WRONG seed %llu caller %s step %u %s: ", seed, me, step, op);

	va_start(args, format);
	n += vsnprintf(line + n, sizeof(line) - n - 2, format, args);
	va_end(args);
	if (n > (int)sizeof(line) - 2)
		n = sizeof(line) - 2;
	line[n++] = '\n';
	if (write(STDOUT_FILENO, line, n) < 0)
		_exit(FOUND + 1);
	_exit(FOUND);
}

/* Whether this task's allocations may fail. */
static void set_faults(int on)
{
	if (fail_fd >= 0 && pwrite(fail_fd, on ? "1" : "0", 1, 0) != 1)
		wrong("make-it-fail: %s", strerror(errno));
}

static void calm(void)
{
	set_faults(0);
}

static void wild(void)
{
	set_faults(faults);
}

/* Belongs to the task that opens it. */
static void open_faults(void)
{
	if (fail_fd >= 0)
		close(fail_fd);
	fail_fd = -1;
	if (!faults)
		return;
	/* What is inherited goes on. */
	for (int i = 0; i < 1000 && fail_fd < 0; i++)
		fail_fd = open("/proc/thread-self/make-it-fail", O_RDWR | O_CLOEXEC);
	if (fail_fd < 0)
		wrong("make-it-fail: %s", strerror(errno));
}

/* ---- What is in a page ---- */

static uint64_t word(uint32_t key, unsigned int i)
{
	return (mix(key) + i * GOLDEN) | ONES;
}

static void fill_page(char *at, uint32_t key)
{
	uint64_t first = mix(key);

	for (unsigned int i = 0; i < PAGE / 8; i++)
		((volatile uint64_t *)at)[i] = (first + i * GOLDEN) | ONES;
}

/* Where it differs, or -1. */
static int differs(const char *at, uint32_t key)
{
	uint64_t first = mix(key);

	for (unsigned int i = 0; i < PAGE / 8; i++) {
		uint64_t want = key ? (first + i * GOLDEN) | ONES : 0;

		if (((volatile uint64_t *)at)[i] != want)
			return i;
	}
	return -1;
}

static uint32_t file_key(int file, unsigned int page)
{
	return mix(((uint64_t)file << 32) + page + 0x517e) | 1;
}

static unsigned char file_byte(int file, size_t pos)
{
	static uint32_t last;
	static uint64_t first;
	uint32_t key = ((uint32_t)file << 16) + pos / PAGE + 1;

	if (key != last) {
		first = mix(file_key(file, pos / PAGE));
		last = key;
	}
	return ((first + pos % PAGE / 8 * GOLDEN) | ONES) >> (pos % 8 * 8);
}

/* Of a file that others write and truncate: what belongs there, or 0. */
static void check_file_bytes(const char *what, const char *at, int file, size_t pos, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		unsigned char is = ((volatile const unsigned char *)at)[i];

		if (is && is != file_byte(file, pos + i))
			wrong("%s, file %d, byte %zu of %zu at %zu: %#x instead of %#x or 0", what, file, i, bytes, pos,
			      is, file_byte(file, pos + i));
	}
	add(&counts->reads, 1);
}

/* ---- Faults that are allowed ---- */

static sigjmp_buf away;
static volatile sig_atomic_t is_guarded;

static void on_fault(int signal, siginfo_t *info, void *context)
{
	(void)context;
	if (is_guarded && signal == SIGBUS) {
		is_guarded = 0;
		siglongjmp(away, 1);
	}
	wrong("signal %d at %p, code %d", signal, info->si_addr, info->si_code);
}

/* if (GUARD) { access; UNGUARD; } else it was refused. */
#define GUARD (is_guarded = 1, !sigsetjmp(away, 1))
#define UNGUARD (is_guarded = 0)

static void catch_faults(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };

	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGSEGV, &action, NULL);
}

/* ---- Areas ---- */

static const uint32_t common[] = { 0xc0000001, 0xc0000003, 0xc0000005, 0xc0000007 };

static int is_loose(const struct area *a)
{
	return a->kind == SHARED;
}

/* Where the truncation of a file, or a lack of huge pages, is a SIGBUS. */
static int may_bus(const struct area *a)
{
	return a->kind == HUGETLB;
}

static void check_page(struct area *a, unsigned int page)
{
	const char *at = a->at + (size_t)page * PAGE;
	int where;

	add(&counts->pages, 1);
	if (is_loose(a)) {
		check_file_bytes("a shared page", at, a->file, (size_t)page * PAGE, PAGE);
		return;
	}
	if (a->may[page] & UNKNOWN)
		return;
	where = differs(at, a->key[page]);
	if (where < 0)
		return;
	if ((a->may[page] & MAYBE_ZERO) && differs(at, 0) < 0)
		return;
	if (a->kind == OVER_FILE && !a->key[page]) {
		check_file_bytes("a page of a file", at, a->file, (size_t)page * PAGE, PAGE);
		return;
	}
	wrong("%s area %d, page %u of %u, word %d: %#llx instead of %#llx (key %#x, may %d)", kind_names[a->kind],
	      (int)(a - areas), page, a->pages, where, (unsigned long long)((volatile uint64_t *)at)[where],
	      (unsigned long long)(a->key[page] ? word(a->key[page], where) : 0), a->key[page], a->may[page]);
}

/* Nothing of the caller's is to survive a jump, so they are functions of their own. */
static int is_refused(struct area *a, unsigned int page)
{
	if (!GUARD)
		return 1;
	check_page(a, page);
	UNGUARD;
	return 0;
}

static int is_fill_refused(char *at, uint32_t key)
{
	if (!GUARD)
		return 1;
	fill_page(at, key);
	UNGUARD;
	return 0;
}

static void check_area(struct area *a, unsigned int page, unsigned int n)
{
	for (unsigned int i = page; i < page + n; i++) {
		if (!is_refused(a, i))
			continue;
		if (!may_bus(a))
			wrong("SIGBUS in a page of an area that is %s", kind_names[a->kind]);
		a->may[i] |= UNKNOWN;
	}
}

/* A page at a time; what is refused is not known any more. */
static void fill_area(struct area *a, unsigned int page, unsigned int n, int alike)
{
	for (unsigned int i = page; i < page + n; i++) {
		uint32_t key = alike ? common[below(4)] : (uint32_t)rnd() | 1;

		if (is_loose(a))
			key = file_key(a->file, i);
		if (!is_fill_refused(a->at + (size_t)i * PAGE, key)) {
			a->key[i] = key;
			a->may[i] = 0;
			continue;
		}
		if (!may_bus(a))
			wrong("SIGBUS at a write to an area that is %s", kind_names[a->kind]);
		a->may[i] |= UNKNOWN;
	}
}

/* A place for that many bytes, at the boundary of a huge page, with nothing in it. */
static char *reserve(size_t bytes)
{
	char *at, *begin;

	at = mmap(NULL, bytes + HUGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		wrong("no place for %zu bytes: %s", bytes, strerror(errno));
	begin = (char *)(((uintptr_t)at + HUGE_BYTES - 1) & ~(uintptr_t)(HUGE_BYTES - 1));
	if (begin > at)
		munmap(at, begin - at);
	munmap(begin + bytes, at + HUGE_BYTES - begin);
	return begin;
}

static size_t area_bytes(const struct area *a)
{
	return (size_t)a->pages * PAGE;
}

static void map_area(struct area *a)
{
	int flags = MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, fd = -1;

	a->kind = below(NR_KINDS);
	if (once_in(2))
		a->kind = PRIVATE;
	a->pages = a->kind == LARGE || a->kind == HUGETLB ? MAX_PAGES : AREA_PAGES;
	a->unit = a->kind == HUGETLB ? HUGE_PAGES : 1;
	a->file = below(NR_FILES);
	calm();
	if (a->kind == SHARED || a->kind == OVER_FILE) {
		/* The first half of the files is never truncated, but holes are punched. */
		a->file /= 2;
		a->pages = FILE_PAGES;
		fd = files[a->file];
		flags = MAP_FIXED | (a->kind == SHARED ? MAP_SHARED : MAP_PRIVATE);
	}
	if (a->kind == HUGETLB)
		flags |= MAP_HUGETLB;
	a->at = reserve(area_bytes(a));
	memset(a->key, 0, sizeof(a->key));
	memset(a->may, 0, sizeof(a->may));
	if (mmap(a->at, area_bytes(a), PROT_READ | PROT_WRITE, flags, fd, 0) == MAP_FAILED) {
		if (a->kind != HUGETLB)
			wrong("mmap: %s", strerror(errno));
		/* No huge pages: small ones, then. */
		a->kind = PRIVATE;
		a->unit = 1;
		if (mmap(a->at, area_bytes(a), PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0) == MAP_FAILED)
			wrong("mmap: %s", strerror(errno));
	}
	if (a->kind == LARGE)
		madvise(a->at, area_bytes(a), MADV_HUGEPAGE);
	wild();
}

static void unmap_area(struct area *a)
{
	/* It may have to split what is mapped, and may not be allowed to. */
	if (munmap(a->at, area_bytes(a))) {
		calm();
		if (munmap(a->at, area_bytes(a)))
			wrong("munmap: %s", strerror(errno));
		wild();
	}
	a->at = NULL;
}

/* A part of it, of whole huge pages where it has to be. */
static unsigned int part(const struct area *a, unsigned int *n)
{
	unsigned int units = a->pages / a->unit, first, most;

	first = below(units);
	most = units - first;
	if (a->unit == 1 && most > AREA_PAGES && !once_in(8))
		most = AREA_PAGES;
	*n = (1 + below(most)) * a->unit;
	return first * a->unit;
}

static struct area *any_area(void)
{
	return &areas[below(NR_AREAS)];
}

static char *page_at(const struct area *a, unsigned int page)
{
	return a->at + (size_t)page * PAGE;
}

/* ---- Steps: memory ---- */

static void do_fill(void)
{
	struct area *a = any_area();
	unsigned int n, page = part(a, &n);

	fill_area(a, page, n, 0);
	check_area(a, page, n);
}

static void do_check(void)
{
	struct area *a = any_area();

	check_area(a, 0, a->pages);
}

/* Equal pages, for KSM. */
static void do_alike(void)
{
	struct area *a = any_area();
	unsigned int n, page = part(a, &n);

	madvise(page_at(a, page), n * PAGE, MADV_MERGEABLE);
	fill_area(a, page, n, !is_loose(a));
	if (once_in(4))
		madvise(page_at(a, page), n * PAGE, MADV_UNMERGEABLE);
	check_area(a, page, n);
}

static void advise(struct area *a, unsigned int page, unsigned int n, int advice)
{
	if (madvise(page_at(a, page), (size_t)n * PAGE, advice))
		add(&counts->refused, 1);
}

static void do_advise(void)
{
	static const int harmless[] = { MADV_PAGEOUT, MADV_PAGEOUT, MADV_COLD, MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_COLLAPSE,
		MADV_MERGEABLE, MADV_UNMERGEABLE, MADV_WILLNEED, MADV_POPULATE_READ, MADV_POPULATE_WRITE };
	struct area *a = any_area();
	unsigned int n, page = part(a, &n);

	advise(a, page, n, harmless[below(sizeof(harmless) / sizeof(*harmless))]);
	check_area(a, page, n);
}

static void do_drop(void)
{
	static const int dropping[] = { MADV_DONTNEED, MADV_FREE, MADV_DONTNEED_LOCKED };
	struct area *a = any_area();
	unsigned int n, page = part(a, &n), which = below(3);
	int refused;

	refused = madvise(page_at(a, page), (size_t)n * PAGE, dropping[which]);
	for (unsigned int i = page; i < page + n && !is_loose(a); i++) {
		/*
		 * Some of it may be done when it is refused. A page of huge ones that has become
		 * unknown may be there all the same.
		 */
		if (refused || which == 1) {
			a->may[i] |= a->kind == OVER_FILE ? UNKNOWN : MAYBE_ZERO;
		} else {
			a->key[i] = 0;
			a->may[i] = 0;
		}
	}
	check_area(a, page, n);
}

static void do_protect(void)
{
	struct area *a = any_area();
	unsigned int n, page = part(a, &n);
	int readable = once_in(2);

	if (!mprotect(page_at(a, page), (size_t)n * PAGE, readable ? PROT_READ : PROT_NONE) && readable)
		check_area(a, page, n);
	calm();
	if (mprotect(page_at(a, page), (size_t)n * PAGE, PROT_READ | PROT_WRITE))
		wrong("mprotect back: %s", strerror(errno));
	wild();
	check_area(a, page, n);
}

static void do_lock(void)
{
	struct area *a = any_area();
	unsigned int n, page = part(a, &n);

	if (once_in(2))
		mlock(page_at(a, page), (size_t)n * PAGE);
	else
		syscall(SYS_mlock2, page_at(a, page), (size_t)n * PAGE, 1 /* MLOCK_ONFAULT */);
	check_area(a, page, n);
	if (!once_in(4))
		munlock(page_at(a, page), (size_t)n * PAGE);
}

/* The whole area goes elsewhere. */
static void do_mremap(void)
{
	struct area *a = any_area();
	char *to;

	calm();
	to = reserve(area_bytes(a));
	if (mremap(a->at, area_bytes(a), area_bytes(a), MREMAP_MAYMOVE | MREMAP_FIXED, to) == to) {
		a->at = to;
	} else {
		/* Areas in several pieces may not go at once: nothing may have gone, then. */
		if (errno != EFAULT && errno != EINVAL)
			wrong("mremap: %s", strerror(errno));
		munmap(to, area_bytes(a));
	}
	wild();
	check_area(a, 0, a->pages);
}

/* Single pages elsewhere, and back. */
static void do_mremap_pages(void)
{
	struct area *a = any_area();
	unsigned int n, page = part(a, &n);
	char *to;

	if (a->unit != 1)
		return;
	if (n > 16)
		n = 16;
	calm();
	to = reserve((size_t)n * PAGE);
	for (unsigned int i = 0; i < n; i++) {
		char *from = page_at(a, page + i), *there = to + (size_t)i * PAGE;

		if (mremap(from, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, there) != there)
			wrong("mremap of a page: %s", strerror(errno));
		if (once_in(8))
			madvise(there, PAGE, MADV_PAGEOUT);
		if (mremap(there, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, from) != from)
			wrong("mremap of a page back: %s", strerror(errno));
	}
	munmap(to, (size_t)n * PAGE);
	wild();
	check_area(a, page, n);
}

static void do_remap(void)
{
	struct area *a = any_area();

	check_area(a, 0, a->pages);
	unmap_area(a);
	map_area(a);
	fill_area(a, 0, a->kind == HUGETLB ? HUGE_PAGES : a->pages, 0);
}

static void do_mbind(void)
{
	struct area *a = any_area();
	unsigned int n, page = part(a, &n);
	unsigned long mask = 1ul << below(2);

	if (syscall(SYS_mbind, page_at(a, page), (size_t)n * PAGE, MPOL_BIND, &mask, 64,
		    once_in(2) ? MPOL_MF_MOVE : MPOL_MF_MOVE_ALL))
		add(&counts->refused, 1);
	check_area(a, page, n);
	syscall(SYS_mbind, page_at(a, page), (size_t)n * PAGE, MPOL_DEFAULT, NULL, 0, 0);
}

static void do_move_pages(void)
{
	struct area *a = any_area();
	unsigned int n, page = part(a, &n), number = 0;
	void *at[AREA_PAGES];
	int nodes[AREA_PAGES], status[AREA_PAGES];

	for (unsigned int i = 0; i < n && number < AREA_PAGES; i += a->unit) {
		at[number] = page_at(a, page + i);
		nodes[number++] = below(2);
	}
	if (syscall(SYS_move_pages, 0, (unsigned long)number, at, nodes, status,
		    once_in(2) ? MPOL_MF_MOVE : MPOL_MF_MOVE_ALL))
		add(&counts->refused, 1);
	check_area(a, page, n);
}

static void do_migrate_pages(void)
{
	unsigned long from = 1 + below(2), to = 3 - from;

	if (syscall(SYS_migrate_pages, 0, 64ul, &from, &to))
		add(&counts->refused, 1);
	do_check();
}

/* By another's eyes: pages are pinned to be read and written. */
static void do_process_vm(void)
{
	struct area *a = any_area();
	unsigned int n, page = part(a, &n);
	struct iovec here = { buffer, 0 }, there;
	ssize_t got;

	if (n > OWN_BYTES / PAGE)
		n = OWN_BYTES / PAGE;
	here.iov_len = (size_t)n * PAGE;
	there = (struct iovec){ page_at(a, page), here.iov_len };
	if (!is_loose(a) && a->kind != HUGETLB && once_in(3)) {
		uint32_t key = (uint32_t)rnd() | 1;

		for (unsigned int i = 0; i < n; i++)
			fill_page(buffer + (size_t)i * PAGE, key);
		got = process_vm_writev(getpid(), &here, 1, &there, 1, 0);
		for (unsigned int i = 0; i < n; i++) {
			if (got >= (ssize_t)(i + 1) * PAGE) {
				a->key[page + i] = key;
				a->may[page + i] = 0;
			} else {
				/* Some of it may be there. */
				a->may[page + i] |= UNKNOWN;
			}
		}
		check_area(a, page, n);
		return;
	}
	got = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
	for (unsigned int i = 0; got >= (ssize_t)(i + 1) * PAGE; i++) {
		const char *at = buffer + (size_t)i * PAGE;

		if (is_loose(a)) {
			check_file_bytes("process_vm_readv", at, a->file, (size_t)(page + i) * PAGE, PAGE);
		} else if (!(a->may[page + i] & UNKNOWN) && differs(at, a->key[page + i]) >= 0 &&
			   !((a->may[page + i] & MAYBE_ZERO) && differs(at, 0) < 0)) {
			if (a->kind == OVER_FILE && !a->key[page + i])
				check_file_bytes("process_vm_readv", at, a->file, (size_t)(page + i) * PAGE, PAGE);
			else
				wrong("process_vm_readv of a page that is %s: %d", kind_names[a->kind],
				      differs(at, a->key[page + i]));
		}
	}
	if (got < 0)
		add(&counts->refused, 1);
}

static int drain(int fd, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t got = read(fd, buffer + done, bytes - done);

		if (got <= 0)
			break;
		done += got;
	}
	return done;
}

/* Pages of an area in a pipe, by reference, and twice if they are teed. */
static void do_vmsplice(void)
{
	struct area *a = any_area();
	unsigned int n, page = part(a, &n);
	int first[2], second[2] = { -1, -1 };
	struct iovec from;
	ssize_t put, teed;

	if (is_loose(a) || a->kind == HUGETLB)
		return;
	if (n > 8)
		n = 8;
	check_area(a, page, n);
	if (pipe2(first, O_NONBLOCK | O_CLOEXEC))
		return;
	from = (struct iovec){ page_at(a, page), (size_t)n * PAGE };
	put = vmsplice(first[1], &from, 1, SPLICE_F_NONBLOCK);
	if (put > 0 && !pipe2(second, O_NONBLOCK | O_CLOEXEC)) {
		teed = tee(first[0], second[1], put, SPLICE_F_NONBLOCK);
		if (teed > 0)
			teed = drain(second[0], teed);
		for (ssize_t i = 0; (i + 1) * PAGE <= teed; i++) {
			if (!a->may[page + i] && a->key[page + i] && differs(buffer + i * PAGE, a->key[page + i]) >= 0)
				wrong("a teed page differs in word %d", differs(buffer + i * PAGE, a->key[page + i]));
		}
	}
	if (put > 0) {
		/* What has been given away is moved, or swapped out. */
		if (once_in(2))
			madvise(page_at(a, page), (size_t)n * PAGE, MADV_PAGEOUT);
		put = drain(first[0], put);
		for (ssize_t i = 0; (i + 1) * PAGE <= put; i++) {
			if (!a->may[page + i] && a->key[page + i] && differs(buffer + i * PAGE, a->key[page + i]) >= 0)
				wrong("a spliced page differs in word %d", differs(buffer + i * PAGE, a->key[page + i]));
		}
	}
	close(first[0]);
	close(first[1]);
	if (second[0] >= 0) {
		close(second[0]);
		close(second[1]);
	}
}

/* The key of a futex in shared memory takes a reference by the fast path of GUP. */
static void do_futex(void)
{
	struct area *a = any_area();
	unsigned int n, page = part(a, &n);

	if (a->kind == HUGETLB)
		return;
	for (unsigned int i = 0; i < n; i++)
		syscall(SYS_futex, page_at(a, page + i), FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void do_uffd(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { 0 };
	char *at, *from;
	uint32_t key[8] = { 0 };
	unsigned int n = 8;
	int fd;

	fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1 /* UFFD_USER_MODE_ONLY */);
	if (fd < 0)
		return;
	calm();
	at = reserve(n * PAGE);
	from = reserve(n * PAGE);
	if (mmap(at, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED ||
	    mmap(from, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		wrong("mmap: %s", strerror(errno));
	wild();
	reg.range.start = (uintptr_t)at;
	reg.range.len = n * PAGE;
	reg.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP;
	if (ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &reg))
		goto out;
	for (unsigned int i = 0; i < n; i++) {
		uint32_t k = (uint32_t)rnd() | 1;

		fill_page(from + i * PAGE, k);
		if (once_in(2)) {
			struct uffdio_copy copy = { .dst = (uintptr_t)at + i * PAGE, .src = (uintptr_t)from + i * PAGE, .len = PAGE };

			if (!ioctl(fd, UFFDIO_COPY, &copy))
				key[i] = k;
		} else {
#ifdef UFFDIO_MOVE
			struct uffdio_move move = { .dst = (uintptr_t)at + i * PAGE, .src = (uintptr_t)from + i * PAGE, .len = PAGE };

			if (!ioctl(fd, UFFDIO_MOVE, &move))
				key[i] = k;
#endif
		}
	}
	for (int round = 0; round < 2; round++) {
		struct uffdio_writeprotect wp = { .range = reg.range, .mode = round ? 0 : UFFDIO_WRITEPROTECT_MODE_WP };
		unsigned long mask = 1ul << below(2);

		if (ioctl(fd, UFFDIO_WRITEPROTECT, &wp))
			add(&counts->refused, 1);
		if (once_in(2))
			madvise(at, n * PAGE, MADV_PAGEOUT);
		else
			syscall(SYS_mbind, at, n * PAGE, MPOL_BIND, &mask, 64, MPOL_MF_MOVE);
		/* What is not there would be waited for. */
		for (unsigned int i = 0; i < n; i++) {
			if (key[i] && differs(at + i * PAGE, key[i]) >= 0)
				wrong("page %u of a userfaultfd, word %d", i, differs(at + i * PAGE, key[i]));
		}
	}
out:
	close(fd);
	munmap(at, n * PAGE);
	munmap(from, n * PAGE);
}

static void poison(char *at)
{
	if (!GUARD)
		return;
	madvise(at, PAGE, MADV_HARD_POISON);
	*(volatile char *)at = 1;
	UNGUARD;
}

/* Pages that are taken out of use, and are gone for good: a few in all. */
static void do_poison(void)
{
	struct area *a = any_area();
	unsigned int n, page = part(a, &n);
	char *at;

	if (depth || nr_poisoned >= 4)
		return;
	nr_poisoned++;
	if (once_in(2) && a->kind != HUGETLB) {
		advise(a, page, 1, MADV_SOFT_POISON);
		check_area(a, page, n);
		return;
	}
	at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return;
	fill_page(at, (uint32_t)rnd() | 1);
	poison(at);
	munmap(at, PAGE);
}

static void do_look(void)
{
	static const char *const names[] = { "smaps", "smaps_rollup", "numa_maps", "pagemap", "maps" };
	char path[64];
	int fd;

	if (once_in(8)) {
		fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
		if (fd >= 0 && write(fd, "1", 1) != 1)
			add(&counts->refused, 1);
	} else {
		snprintf(path, sizeof(path), "/proc/self/%s", names[below(5)]);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		while (fd >= 0 && read(fd, buffer, sizeof(buffer)) > 0 && !once_in(16))
			;
	}
	if (fd >= 0)
		close(fd);
}

/* ---- Steps: a file of one's own, whose bytes are known ---- */

static void open_own(struct own *o)
{
	static const char *const where[] = { "/tmp/large", "/tmp/ram" };
	char path[100];

	calm();
	snprintf(path, sizeof(path), "%s/%s-%d", where[o - own], me, (int)getpid());
	o->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (o->fd < 0)
		wrong("%s: %s", path, strerror(errno));
	unlink(path);
	o->size = 0;
	memset(o->bytes, 0, sizeof(o->bytes));
	wild();
}

/* After what was refused: it may have been done in part. */
static void look_again(struct own *o)
{
	struct stat is;
	ssize_t got;

	calm();
	if (fstat(o->fd, &is) || is.st_size > OWN_BYTES)
		wrong("the size of a file of one's own: %s, %lld", strerror(errno), (long long)is.st_size);
	got = pread(o->fd, buffer, OWN_BYTES, 0);
	if (got != is.st_size)
		wrong("%zd bytes read of %lld", got, (long long)is.st_size);
	for (ssize_t i = 0; i < got; i++) {
		unsigned char b = buffer[i];

		if (b && ((size_t)i >= o->size || b != o->bytes[i]))
			wrong("byte %zd of a file of one's own: %#x instead of %#x or 0", i, b, o->bytes[i]);
	}
	memset(o->bytes, 0, sizeof(o->bytes));
	memcpy(o->bytes, buffer, got);
	o->size = got;
	wild();
}

static void check_own(const char *what, const struct own *o, size_t pos, const char *at, ssize_t got, size_t bytes)
{
	size_t most = pos < o->size ? o->size - pos : 0;

	if (most > bytes)
		most = bytes;
	add(&counts->reads, 1);
	if (got < 0) {
		if (!faults && errno != EAGAIN)
			wrong("%s of %zu at %zu: %s", what, bytes, pos, strerror(errno));
		add(&counts->refused, 1);
		return;
	}
	if ((size_t)got > most)
		wrong("%s of %zu at %zu: %zd of a file of %zu bytes", what, bytes, pos, got, o->size);
	for (ssize_t i = 0; memcmp(at, o->bytes + pos, got) && i < got; i++) {
		if ((unsigned char)at[i] != o->bytes[pos + i])
			wrong("%s of %zu at %zu in file %d of %zu bytes: byte %zd is %#x instead of %#x", what, bytes, pos,
			      (int)(o - own), o->size, i, (unsigned char)at[i], o->bytes[pos + i]);
	}
}

static size_t some_bytes(size_t most)
{
	size_t bytes = once_in(2) ? 1 + below(160) : once_in(2) ? 1 + below(2 * PAGE) : 1 + below(OWN_BYTES);

	return bytes < most ? bytes : most;
}

/* Near the end of the file and of pages as often as elsewhere. */
static size_t some_pos(const struct own *o)
{
	size_t pos = below(OWN_BYTES);

	if (once_in(4) && o->size)
		pos = o->size - (o->size < 200 ? o->size : below(200));
	else if (once_in(4))
		pos = (pos & ~(size_t)(PAGE - 1)) + PAGE - 1 - below(100);
	return pos < OWN_BYTES ? pos : OWN_BYTES - 1;
}

static void do_own_write(void)
{
	struct own *o = &own[below(NR_OWN)];
	size_t pos = some_pos(o), bytes = some_bytes(OWN_BYTES - pos);
	uint32_t key = (uint32_t)rnd() | 1;
	ssize_t put;

	for (size_t i = 0; i < bytes; i++)
		buffer[i] = mix(key + i / 8) >> (i % 8 * 8);
	put = pwrite(o->fd, buffer, bytes, pos);
	if (put > 0) {
		memcpy(o->bytes + pos, buffer, put);
		if (pos + put > o->size)
			o->size = pos + put;
	}
	if (put != (ssize_t)bytes) {
		if (!faults)
			wrong("%zd of %zu bytes written: %s", put, bytes, strerror(errno));
		add(&counts->refused, 1);
		/* What lies between was made, perhaps, but not what follows it. */
		look_again(o);
	}
}

static void do_own_read(void)
{
	struct own *o = &own[below(NR_OWN)];

	for (int i = 0; i < 32; i++) {
		size_t pos = some_pos(o), bytes = some_bytes(OWN_BYTES), first = below(bytes);
		struct iovec parts[2] = { { buffer, first }, { buffer + first, bytes - first } };
		ssize_t got;

		memset(buffer, 0xee, bytes);
		switch (below(4)) {
		case 0:
			got = preadv(o->fd, parts, 2, pos);
			check_own("preadv", o, pos, buffer, got, bytes);
			break;
		case 1:
			got = preadv2(o->fd, parts, 2, pos, 8 /* RWF_NOWAIT */);
			if (got < 0 && (errno == EAGAIN || errno == EOPNOTSUPP))
				break;
			check_own("preadv2 that does not wait", o, pos, buffer, got, bytes);
			break;
		case 2:
			lseek(o->fd, pos, SEEK_SET);
			got = read(o->fd, buffer, bytes);
			check_own("read", o, pos, buffer, got, bytes);
			if (got > 0 && lseek(o->fd, 0, SEEK_CUR) != (off_t)pos + got)
				wrong("a read of %zd bytes at %zu ends at %lld", got, pos, (long long)lseek(o->fd, 0, SEEK_CUR));
			break;
		default:
			got = pread(o->fd, buffer, bytes, pos);
			check_own("pread", o, pos, buffer, got, bytes);
			/* With nothing in the way it is all that there is. */
			if (!faults && got >= 0 && (size_t)got < bytes && pos + got < o->size)
				wrong("pread of %zu at %zu: %zd of a file of %zu bytes", bytes, pos, got, o->size);
		}
	}
}

/* Into memory that is swapped out, not there, or ends. */
static void do_own_read_faulting(void)
{
	struct own *o = &own[below(NR_OWN)];
	size_t pos = some_pos(o), bytes = some_bytes(OWN_BYTES), room;
	char *at;
	ssize_t got;

	calm();
	at = mmap(NULL, OWN_BYTES + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED || mprotect(at + OWN_BYTES, PAGE, PROT_NONE))
		wrong("mmap: %s", strerror(errno));
	wild();
	/* So that it ends in the page that is not there, or just before it. */
	room = once_in(2) ? bytes : below(bytes) + 1;
	if (once_in(2)) {
		memset(at, 0x55, OWN_BYTES);
		madvise(at, OWN_BYTES, MADV_PAGEOUT);
	}
	got = pread(o->fd, at + OWN_BYTES - room, bytes, pos);
	if (got < 0) {
		if (errno != EFAULT && !faults)
			wrong("pread: %s", strerror(errno));
	} else {
		if ((size_t)got > room)
			wrong("pread of %zu to %zu bytes: %zd", bytes, room, got);
		check_own("pread that faults", o, pos, at + OWN_BYTES - room, got, bytes);
		if (!faults && room == bytes && (size_t)got < bytes && pos + got < o->size)
			wrong("pread of %zu at %zu: %zd of a file of %zu bytes", bytes, pos, got, o->size);
	}
	munmap(at, OWN_BYTES + PAGE);
}

static void do_own_truncate(void)
{
	struct own *o = &own[below(NR_OWN)];
	size_t size = some_pos(o);

	if (ftruncate(o->fd, size)) {
		look_again(o);
		return;
	}
	if (size < o->size)
		memset(o->bytes + size, 0, o->size - size);
	o->size = size;
}

static void do_own_punch(void)
{
	struct own *o = &own[0];
	size_t pos = some_pos(o), bytes = some_bytes(OWN_BYTES - pos), end;
	int punch = !once_in(4);

	if (fallocate(o->fd, punch ? FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE : 0, pos, bytes)) {
		look_again(o);
		return;
	}
	end = pos + bytes;
	if (!punch) {
		if (end > o->size)
			o->size = end;
		return;
	}
	if (end > o->size)
		end = o->size;
	if (end > pos)
		memset(o->bytes + pos, 0, end - pos);
}

/* Looked at and written through a mapping, and swapped out. */
static void do_own_map(void)
{
	struct own *o = &own[below(NR_OWN)];
	size_t pages = o->size / PAGE;
	unsigned char *at;

	if (!pages)
		return;
	at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, o->fd, 0);
	if (at == MAP_FAILED)
		return;
	for (int i = 0; i < 4; i++) {
		size_t byte = below(pages * PAGE);

		if (at[byte] != o->bytes[byte])
			wrong("byte %zu of a mapping: %#x instead of %#x", byte, at[byte], o->bytes[byte]);
		at[byte] = o->bytes[byte] = rnd();
	}
	madvise(at, pages * PAGE, once_in(2) ? MADV_PAGEOUT : MADV_COLLAPSE);
	if (once_in(2) && memcmp(at, o->bytes, pages * PAGE))
		wrong("a mapping of %zu pages is not the file", pages);
	munmap(at, pages * PAGE);
}

/* From the file to a pipe, and back to another place of it. */
static void do_own_splice(void)
{
	struct own *o = &own[below(NR_OWN)];
	off_t pos = some_pos(o);
	size_t bytes = some_bytes(8 * PAGE);
	ssize_t got;
	loff_t to;
	int pipes[2];

	if (pipe2(pipes, O_NONBLOCK | O_CLOEXEC))
		return;
	got = splice(o->fd, &pos, pipes[1], NULL, bytes, SPLICE_F_NONBLOCK);
	if (got > 0) {
		pos -= got;
		if (once_in(2)) {
			got = drain(pipes[0], got);
			check_own("splice", o, pos, buffer, got, bytes);
		} else {
			ssize_t put;

			to = below(OWN_BYTES - got + 1);
			/* A pipe has references to the pages: over themselves they are copied piece by piece. */
			if (to + got <= pos || to >= pos + got) {
				put = splice(pipes[0], NULL, o->fd, &to, got, SPLICE_F_NONBLOCK);
				if (put > 0) {
					to -= put;
					memmove(o->bytes + to, o->bytes + pos, put);
					if ((size_t)to + put > o->size)
						o->size = to + put;
				}
				if (put != got) {
					if (!faults)
						wrong("%zd of %zd bytes spliced: %s", put, got, strerror(errno));
					look_again(o);
				}
			}
		}
	} else if (got < 0 && !faults && errno != EAGAIN) {
		wrong("splice of %zu: %s", bytes, strerror(errno));
	}
	close(pipes[0]);
	close(pipes[1]);
}

/* ---- Steps: files of all ---- */

static void do_file_read(void)
{
	int file = below(NR_FILES);

	for (int i = 0; i < 64; i++) {
		size_t pos = below(FILE_PAGES * PAGE), bytes = some_bytes(OWN_BYTES);
		ssize_t got = pread(files[file], buffer, bytes, pos);

		if (got > (ssize_t)bytes)
			wrong("%zd of %zu bytes", got, bytes);
		if (got < 0 && !faults)
			wrong("pread: %s", strerror(errno));
		if (got > 0)
			check_file_bytes("pread", buffer, file, pos, got);
	}
}

static void do_file_write(void)
{
	int file = below(NR_FILES);
	size_t pos = below(FILE_PAGES * PAGE - 1), bytes = some_bytes(FILE_PAGES * PAGE - pos);

	for (size_t i = 0; i < bytes; i++)
		buffer[i] = file_byte(file, pos + i);
	if (pwrite(files[file], buffer, bytes, pos) != (ssize_t)bytes && !faults)
		wrong("pwrite: %s", strerror(errno));
}

static void do_file_shrink(void)
{
	int file = below(NR_FILES);
	size_t pos = below(FILE_PAGES * PAGE - 1), bytes = some_bytes(FILE_PAGES * PAGE - pos);

	if (file < NR_FILES / 2) {
		/* ramfs has no holes. */
		if (fallocate(files[file], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, pos, bytes))
			add(&counts->refused, 1);
		return;
	}
	if (ftruncate(files[file], pos) || ftruncate(files[file], FILE_PAGES * PAGE))
		add(&counts->refused, 1);
}

/* A task of its own, which takes pages of a file away and writes others, so that what was theirs is used for these. */
static void __attribute__((noreturn)) change_pages(int file)
{
	for (size_t i = 0; i < RACE_PAGES * PAGE; i++)
		buffer[i] = file_byte(file, i);
	for (int round = 0; round < RACE_ROUNDS && now_ns() < deadline; round++) {
		size_t pos = below(RACE_PAGES) * PAGE;

		/* As do_file_shrink(): the first two are mapped, so these have holes and are not cut. */
		if (file < NR_FILES / 2 ?
		    fallocate(files[file], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, pos, PAGE) :
		    ftruncate(files[file], pos) || ftruncate(files[file], FILE_PAGES * PAGE))
			add(&counts->refused, 1);
		for (int i = 0; i < RACE_PAGES; i++) {
			pos = below(RACE_PAGES) * PAGE;
			if (pwrite(files[file], buffer + pos, PAGE, pos) < 0)
				continue;
		}
	}
	_exit(0);
}

/*
 * Short reads of pages that go meanwhile. A read that takes what is in a page's memory after the page has gone
 * is a matter of some instructions, so there are many; a file of its own, so that the read before is of the same page.
 */
static void do_file_race(void)
{
	int file = below(NR_FILES), status = 0, fd;
	char path[40];
	pid_t pid;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", files[file]);
	calm();
	fd = open(path, O_RDONLY | O_CLOEXEC);
	wild();
	if (fd < 0)
		wrong("open: %s", strerror(errno));
	pid = fork();
	if (!pid)
		change_pages(file);
	if (pid < 0) {
		if (!faults)
			wrong("fork: %s", strerror(errno));
		add(&counts->refused, 1);
		close(fd);
		return;
	}
	while (!waitpid(pid, &status, WNOHANG)) {
		size_t pos = below(RACE_PAGES) * PAGE;

		for (int i = 0; i < 64; i++) {
			size_t at = pos + below(PAGE - 128), bytes = 1 + below(128);
			ssize_t got = pread(fd, buffer, bytes, at);

			if (got < 0 && !faults)
				wrong("pread: %s", strerror(errno));
			if (got > 0)
				check_file_bytes("pread", buffer, file, at, got);
		}
	}
	close(fd);
	if (status)
		wrong("who changes pages ended with %#x", status);
}

static void do_file_splice(void)
{
	int file = below(NR_FILES), pipes[2];
	loff_t pos = below(FILE_PAGES * PAGE), begin = pos;
	ssize_t got;

	if (pipe2(pipes, O_NONBLOCK | O_CLOEXEC))
		return;
	got = splice(files[file], &pos, pipes[1], NULL, some_bytes(8 * PAGE), SPLICE_F_NONBLOCK);
	/* Somebody may cut the file, and have its pages used for something else. */
	if (once_in(2))
		do_file_shrink();
	if (got > 0) {
		got = drain(pipes[0], got);
		check_file_bytes("splice", buffer, file, begin, got);
	}
	close(pipes[0]);
	close(pipes[1]);
}

/* ---- Steps: processes ---- */

static void reap(int i)
{
	int status = 0;

	while (waitpid(children[i], &status, 0) < 0) {
		if (errno != EINTR)
			wrong("waitpid: %s", strerror(errno));
	}
	children[i] = 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == FOUND)
		_exit(FOUND);
	if (status)
		wrong("a child ended with %#x", status);
}

static void caller(unsigned int steps);

/*
 * Where huge pages are short, the kernel takes those of children for the parent that has reserved
 * them, and marks the child's VMA so that it is killed and not given a page of zeros. mremap()
 * and fork() do not keep that mark (hugetlb_dup_vma_private()).
 */
static void lose_reserves(void)
{
	for (int i = 0; i < NR_AREAS; i++) {
		for (unsigned int page = 0; areas[i].kind == HUGETLB && page < areas[i].pages; page++)
			areas[i].may[page] |= MAYBE_ZERO;
	}
}

static void do_fork(void)
{
	int i = below(MAX_CHILDREN);
	pid_t pid;

	if (depth == MAX_DEPTH)
		return;
	if (children[i])
		reap(i);
	nr_forked++;
	pid = fork();
	if (pid < 0) {
		if (!faults)
			wrong("fork: %s", strerror(errno));
		add(&counts->refused, 1);
		return;
	}
	if (pid) {
		children[i] = pid;
		add(&counts->forks, 1);
		/* As often before the child has its own copies as after. */
		if (once_in(2))
			do_fill();
		return;
	}
	depth++;
	snprintf(me + strlen(me), sizeof(me) - strlen(me), ".%u", nr_forked);
	nr_forked = 0;
	memset(children, 0, sizeof(children));
	open_faults();
	wild();
	op = "child";
	lose_reserves();
	for (i = 0; i < NR_OWN; i++) {
		calm();
		close(own[i].fd);
		open_own(&own[i]);
	}
	for (i = 0; i < NR_AREAS; i++)
		check_area(&areas[i], 0, areas[i].pages);
	step = 0;
	caller(below(CHILD_STEPS));
	/* Some end with their memory as it is, others give it back first. */
	if (once_in(2)) {
		for (i = 0; i < NR_AREAS; i++)
			unmap_area(&areas[i]);
	}
	_exit(0);
}

static void do_reap(void)
{
	int i = below(MAX_CHILDREN);

	if (children[i])
		reap(i);
}

/* How often each comes, of the sum of all. */
static const struct {
	const char *name;
	void (*run)(void);
	unsigned int weight;
} ops[] = {
	{ "fill", do_fill, 8 },
	{ "check", do_check, 4 },
	{ "alike", do_alike, 4 },
	{ "madvise", do_advise, 10 },
	{ "madvise-drop", do_drop, 4 },
	{ "mprotect", do_protect, 3 },
	{ "mlock", do_lock, 2 },
	{ "mremap", do_mremap, 2 },
	{ "mremap-pages", do_mremap_pages, 3 },
	{ "munmap-mmap", do_remap, 3 },
	{ "mbind", do_mbind, 8 },
	{ "move_pages", do_move_pages, 8 },
	{ "migrate_pages", do_migrate_pages, 2 },
	{ "process_vm", do_process_vm, 5 },
	{ "vmsplice", do_vmsplice, 5 },
	{ "futex", do_futex, 2 },
	{ "userfaultfd", do_uffd, 3 },
	{ "poison", do_poison, 1 },
	{ "proc", do_look, 2 },
	{ "own-write", do_own_write, 8 },
	{ "own-read", do_own_read, 12 },
	{ "own-read-faulting", do_own_read_faulting, 4 },
	{ "own-truncate", do_own_truncate, 5 },
	{ "own-punch", do_own_punch, 4 },
	{ "own-map", do_own_map, 4 },
	{ "own-splice", do_own_splice, 4 },
	{ "file-read", do_file_read, 10 },
	{ "file-write", do_file_write, 6 },
	{ "file-shrink", do_file_shrink, 4 },
	{ "file-splice", do_file_splice, 4 },
	{ "file-race", do_file_race, 3 },
	{ "fork", do_fork, 8 },
	{ "wait", do_reap, 3 },
};

#define NR_OPS (sizeof(ops) / sizeof(*ops))

static unsigned int sum_of_weights(void)
{
	unsigned int sum = 0;

	for (unsigned int i = 0; i < NR_OPS; i++)
		sum += ops[i].weight;
	return sum;
}

static void caller(unsigned int steps)
{
	unsigned int sum = sum_of_weights(), which, at;

	for (; step < steps && now_ns() < deadline; step++) {
		begin_step();
		at = below(sum);
		for (which = 0; at >= ops[which].weight; which++)
			at -= ops[which].weight;
		op = ops[which].name;
		ops[which].run();
		add(&counts->steps, 1);
		add(&counts->ops[which], 1);
	}
	op = "end";
	begin_step();
	for (int i = 0; i < MAX_CHILDREN; i++) {
		if (children[i])
			reap(i);
	}
	for (int i = 0; i < NR_AREAS; i++)
		check_area(&areas[i], 0, areas[i].pages);
}

static void begin_caller(unsigned int number)
{
	snprintf(me, sizeof(me), "%u", number);
	catch_faults();
	open_faults();
	begin_step();
	for (int i = 0; i < NR_OWN; i++)
		open_own(&own[i]);
	for (int i = 0; i < NR_AREAS; i++) {
		map_area(&areas[i]);
		fill_area(&areas[i], 0, areas[i].kind == HUGETLB ? HUGE_PAGES : areas[i].pages, 0);
	}
	step = 1;
	caller(-1);
	_exit(0);
}

/* ---- What root does to all of them ---- */

static int put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), failed;

	if (fd < 0)
		return -1;
	failed = write(fd, text, strlen(text)) < 0;
	close(fd);
	return -failed;
}

static int get(const char *path, char *text, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return -1;
	got = read(fd, text, bytes - 1);
	close(fd);
	text[got > 0 ? got : 0] = 0;
	text[strcspn(text, "\n")] = 0;
	return got > 0 ? 0 : -1;
}

static void on_alarm(int signal)
{
	(void)signal;
}

/* A block of memory, if that is online and movable. */
static void shake_block(void)
{
	char path[80], text[80];
	unsigned int number = below(64);

	snprintf(path, sizeof(path), "/sys/devices/system/memory/memory%u/valid_zones", number);
	if (get(path, text, sizeof(text)) || strcmp(text, "Movable"))
		return;
	op = "memory-offline";
	snprintf(path, sizeof(path), "/sys/devices/system/memory/memory%u/state", number);
	/* It goes on until somebody interrupts it. */
	alarm(8);
	if (put(path, "offline")) {
		alarm(0);
		add(&counts->busy, 1);
		return;
	}
	alarm(0);
	add(&counts->offline, 1);
	usleep(below(200000));
	op = "memory-online";
	/* A device that is about to take some away lets nobody else do anything. */
	for (int i = 0; i < 600; i++) {
		if (!put(path, "online_movable")) {
			add(&counts->online, 1);
			return;
		}
		/* Who has plugged it in may have pulled it out. */
		if (access(path, F_OK))
			return;
		usleep(100000);
	}
	wrong("%s: %s", path, strerror(errno));
}

static void shake(const pid_t *callers, unsigned int nr_callers)
{
	struct sigaction action = { .sa_handler = on_alarm };
	static char bytes[65536];
	unsigned long from, to;
	char text[32];
	pid_t pid;
	int fd;

	snprintf(me, sizeof(me), "root");
	sigaction(SIGALRM, &action, NULL);
	for (step = 1; now_ns() < deadline; step++) {
		begin_step();
		pid = callers[below(nr_callers)];
		switch (below(10)) {
		case 0:
		case 1:
			shake_block();
			break;
		case 2:
			op = "nr_hugepages";
			snprintf(text, sizeof(text), "%u", 4 + below(20));
			if (!put("/proc/sys/vm/nr_hugepages", text))
				add(&counts->pools, 1);
			break;
		case 3:
			/* Takes seconds. */
			op = "compact_memory";
			if (once_in(8))
				put("/proc/sys/vm/compact_memory", "1");
			break;
		case 4:
			op = "memory.reclaim";
			put("/tmp/cgroup/memory.reclaim", "4M");
			break;
		case 5:
			op = "drop_caches";
			put("/proc/sys/vm/drop_caches", once_in(4) ? "3" : "1");
			break;
		case 6:
			op = "migrate_pages";
			from = 1 + below(2);
			to = 3 - from;
			if (!syscall(SYS_migrate_pages, pid, 64ul, &from, &to))
				add(&counts->moved, 1);
			break;
		case 7:
			/* Walkers of page frames: they try to get whatever there is. */
			op = "page frames";
			fd = open(once_in(2) ? "/proc/kpageflags" : "/proc/kpagecount", O_RDONLY | O_CLOEXEC);
			lseek(fd, (off_t)below(96) * sizeof(bytes), SEEK_SET);
			if (fd < 0 || read(fd, bytes, sizeof(bytes)) < 0)
				add(&counts->refused, 1);
			if (fd >= 0)
				close(fd);
			break;
		case 8:
			op = "page_idle";
			fd = open("/sys/kernel/mm/page_idle/bitmap", O_RDWR | O_CLOEXEC);
			memset(bytes, 0xff, sizeof(bytes));
			lseek(fd, (off_t)below(12) * 8192, SEEK_SET);
			if (fd < 0 || write(fd, bytes, 8192) < 0 || lseek(fd, -8192, SEEK_CUR) < 0 || read(fd, bytes, 8192) < 0)
				add(&counts->refused, 1);
			if (fd >= 0)
				close(fd);
			break;
		default:
			op = "process_madvise";
			fd = syscall(SYS_pidfd_open, pid, 0);
			if (fd >= 0) {
				char path[64];
				unsigned long first, last;
				int most = 8;
				struct iovec one;
				FILE *maps;

				snprintf(path, sizeof(path), "/proc/%d/maps", pid);
				maps = fopen(path, "re");
				while (maps && most && fgets(bytes, sizeof(bytes), maps)) {
					if (!once_in(8) || sscanf(bytes, "%lx-%lx", &first, &last) != 2)
						continue;
					most--;
					one = (struct iovec){ (void *)first, last - first };
					syscall(SYS_process_madvise, fd, &one, 1ul,
						once_in(3) ? MADV_COLLAPSE : once_in(2) ? MADV_COLD : MADV_PAGEOUT, 0u);
				}
				if (maps)
					fclose(maps);
				close(fd);
			}
		}
		add(&counts->shakes, 1);
		usleep(below(20000));
	}
	_exit(0);
}

/* ---- All together ---- */

static void set_up_injection(const char *which, const char *interval)
{
	static const char *const values[][2] = { { "task-filter", "Y" }, { "ignore-gfp-wait", "N" },
		{ "ignore-gfp-highmem", "N" }, { "min-order", "0" }, { "verbose", "0" }, { "probability", "50" },
		{ "times", "1000000" } };
	char path[100];

	snprintf(path, sizeof(path), "/sys/kernel/debug/%s/interval", which);
	if (put(path, interval))
		wrong("%s: %s", path, strerror(errno));
	for (unsigned int i = 0; i < sizeof(values) / sizeof(*values); i++) {
		snprintf(path, sizeof(path), "/sys/kernel/debug/%s/%s", which, values[i][0]);
		if (access(path, F_OK) && (!strcmp(values[i][0], "ignore-gfp-highmem") || !strcmp(values[i][0], "min-order")))
			continue;
		if (put(path, values[i][1]))
			wrong("%s: %s", path, strerror(errno));
	}
}

/* How many allocations have failed, and no more shall. */
static unsigned long end_injection(const char *which)
{
	char path[100], text[32];
	unsigned long left = 0;

	snprintf(path, sizeof(path), "/sys/kernel/debug/%s/probability", which);
	put(path, "0");
	snprintf(path, sizeof(path), "/sys/kernel/debug/%s/times", which);
	if (!get(path, text, sizeof(text)))
		left = strtoul(text, NULL, 10);
	return left ? 1000000 - left : 0;
}

static void set_up(void)
{
	static const char *const paths[] = { "/tmp/large/0", "/tmp/small/1", "/tmp/ram/2", "/tmp/large/3" };

	mkdir("/tmp/large", 0755);
	mkdir("/tmp/small", 0755);
	mkdir("/tmp/ram", 0755);
	mkdir("/tmp/cgroup", 0755);
	/* Not every kernel has large folios. */
	if ((mount("tmpfs", "/tmp/large", "tmpfs", 0, "huge=always") && mount("tmpfs", "/tmp/large", "tmpfs", 0, NULL)) ||
	    mount("tmpfs", "/tmp/small", "tmpfs", 0, NULL) ||
	    mount("ramfs", "/tmp/ram", "ramfs", 0, NULL))
		wrong("mount: %s", strerror(errno));
	mount("cgroup2", "/tmp/cgroup", "cgroup2", 0, NULL);
	for (int i = 0; i < NR_FILES; i++) {
		files[i] = open(paths[i], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (files[i] < 0 || ftruncate(files[i], FILE_PAGES * PAGE))
			wrong("%s: %s", paths[i], strerror(errno));
	}
	put("/sys/kernel/mm/ksm/sleep_millisecs", "20");
	put("/sys/kernel/mm/ksm/pages_to_scan", "500");
	put("/sys/kernel/mm/ksm/run", "1");
	put("/proc/sys/vm/nr_overcommit_hugepages", "8");
}

/* What they wait for, if they do not end. */
static void say_where(void)
{
	char path[300], text[400];
	struct dirent *entry;
	DIR *proc = opendir("/proc");
	FILE *stack;

	while (proc && (entry = readdir(proc))) {
		if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
			continue;
		snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
		if (get(path, text, sizeof(text)) || strcmp(text, "random"))
			continue;
		snprintf(path, sizeof(path), "/proc/%s/stack", entry->d_name);
		stack = fopen(path, "re");
		while (stack && fgets(text, sizeof(text), stack))
			printf("HUNG %s %s", entry->d_name, text);
		if (stack)
			fclose(stack);
	}
	if (proc)
		closedir(proc);
}

int main(int argc, char **argv)
{
	unsigned int seconds, nr_callers, left;
	pid_t pids[MAX_CALLERS + 1], pid;
	unsigned long slab = 0, pages = 0;
	int status, failed = 0;
	uint64_t begin;

	if (argc != 5 || (strcmp(argv[4], "calm") && strcmp(argv[4], "faults"))) {
		fprintf(stderr, "usage: random SEED SECONDS CALLERS calm|faults\n");
		return 2;
	}
	seed = strtoull(argv[1], NULL, 0);
	seconds = strtoul(argv[2], NULL, 10);
	nr_callers = strtoul(argv[3], NULL, 10);
	faults = !strcmp(argv[4], "faults");
	if (!seconds || !nr_callers || nr_callers > MAX_CALLERS)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (counts == MAP_FAILED)
		return 2;
	set_up();
	if (faults) {
		set_up_injection("failslab", "400");
		set_up_injection("fail_page_alloc", "200");
	}
	begin = now_ns();
	deadline = begin + seconds * 1000000000ull;
	for (left = 0; left <= nr_callers; left++) {
		pid = fork();
		if (pid < 0)
			wrong("fork: %s", strerror(errno));
		if (!pid) {
			if (left == nr_callers)
				shake(pids, nr_callers);
			begin_caller(left);
		}
		pids[left] = pid;
	}
	while (left) {
		pid = waitpid(-1, &status, WNOHANG);
		if (pid < 0)
			break;
		if (pid) {
			left--;
			if (status && !failed) {
				if (!WIFEXITED(status) || WEXITSTATUS(status) != FOUND)
					printf("WRONG seed %llu: task %d ended with %#x\n", seed, pid, status);
				failed = 1;
				/* The others have nothing to add. */
				for (unsigned int i = 0; i <= nr_callers; i++)
					kill(pids[i], SIGKILL);
			}
			continue;
		}
		if (!failed && now_ns() > deadline + SECONDS_TO_END * 1000000000ull) {
			printf("WRONG seed %llu: %u tasks do not end\n", seed, left);
			failed = 1;
			say_where();
			for (unsigned int i = 0; i <= nr_callers; i++)
				kill(pids[i], SIGKILL);
		} else if (failed && now_ns() > deadline + 2 * SECONDS_TO_END * 1000000000ull) {
			break;
		}
		usleep(20000);
	}
	if (faults) {
		slab = end_injection("failslab");
		pages = end_injection("fail_page_alloc");
		if (!slab || !pages) {
			printf("WRONG seed %llu: %lu and %lu allocations failed\n", seed, slab, pages);
			failed = 1;
		}
	}
	printf("SAYS seed %llu, %s: %lu steps in %llu s, %lu forks, %lu pages and %lu reads looked at, %lu calls refused\n",
	       seed, argv[4], counts->steps, (unsigned long long)(now_ns() - begin) / 1000000000, counts->forks,
	       counts->pages, counts->reads, counts->refused);
	printf("SAYS %lu and %lu allocations failed (slab, pages); memory %lu times offline, %lu online again, %lu busy; huge pages %lu times changed, callers %lu times moved, of %lu steps of root\n",
	       slab, pages, counts->offline, counts->online, counts->busy, counts->pools, counts->moved,
	       counts->shakes);
	for (unsigned int i = 0; i < NR_OPS; i++) {
		printf(i % 8 ? ", %s %lu" : "SAYS %s %lu", ops[i].name, counts->ops[i]);
		if (i % 8 == 7 || i == NR_OPS - 1)
			printf("\n");
	}
	/* What should have come this often comes, but for one run in ten million. */
	for (unsigned int i = 0; i < NR_OPS; i++) {
		if (!counts->ops[i] && counts->steps * ops[i].weight / sum_of_weights() >= OFTEN) {
			printf("WRONG seed %llu: no %s in %lu steps\n", seed, ops[i].name, counts->steps);
			failed = 1;
		}
	}
	printf("%s 1 random %s\n", failed ? "not ok" : "ok", argv[4]);
	return failed ? FOUND : 0;
}
