// SPDX-License-Identifier: GPL-2.0-only
/*
 * The only program of the lab's QEMU guests, except for the kernel's selftests.
 *
 * As init it gives the guest swap space; moves forked memory, and such as is in the swap
 * cache, between the guest's two nodes, checks every page of every process, and prints
 * lines of JSON; runs
 * the selftests of /selftests.list, each with a time limit, and prints a line
 * "SELFTEST NAME RESULT" for each, and one "CASE" for each of its cases; prints what
 * the kernel has warned of; and then it reboots, which ends QEMU.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define MPOL_BIND	2
#define MPOL_MF_STRICT	1
#define MPOL_MF_MOVE	2
#define MPOL_MF_MOVE_ALL 4

#define MOVES		20
#define TRIES		3

static size_t page_bytes;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static int swap_on(const char *dev)
{
	static char first[4096];
	uint32_t *info = (uint32_t *)(first + 1024);
	int fd = open(dev, O_RDWR);
	off_t bytes;

	if (fd < 0)
		return -1;
	bytes = lseek(fd, 0, SEEK_END);
	info[0] = 1;
	info[1] = bytes / sizeof(first) - 1;
	memcpy(first + sizeof(first) - 10, "SWAPSPACE2", 10);
	if (pwrite(fd, first, sizeof(first), 0) != sizeof(first))
		bytes = 0;
	close(fd);
	return bytes ? swapon(dev, 0) : -1;
}

/*
 * QEMU has no more processors than the lab's machine, and tests that spin on more than
 * there are take minutes. That of migration leaves two processors of three alone.
 */
static void run_on_two_processors(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	CPU_SET(1, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

#define MAX_ARGS	8
#define LINE_BYTES	400

/* "./name arg arg", in /selftests */
static void exec_selftest(char *command)
{
	char *args[MAX_ARGS + 1] = { NULL };
	int n = 0;

	for (char *word = strtok(command, " "); word && n < MAX_ARGS; word = strtok(NULL, " "))
		args[n++] = word;
	if (!chdir("/selftests") && n)
		execv(args[0], args);
	_exit(127);
}

/* Runs a selftest once, and says its exit code in the words of kselftest. */
static void try_selftest(const char *command, const char *log_path, unsigned int seconds,
			 char *result, size_t bytes)
{
	static const char *const what[] = { "pass", "fail", "xfail", "xpass", "skip" };
	int status = 0;
	pid_t pid = fork();

	if (pid < 0) {
		snprintf(result, bytes, "no-fork");
		return;
	}
	if (!pid) {
		char line[LINE_BYTES];
		int log = open(log_path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

		dup2(log, 1);
		dup2(log, 2);
		setpgid(0, 0);
		if (strncmp(command, "./migration", 11))
			run_on_two_processors();
		snprintf(line, sizeof(line), "%s", command);
		exec_selftest(line);
	}
	snprintf(result, bytes, "timeout");
	for (unsigned int i = 0; i < seconds * 20; i++) {
		if (waitpid(pid, &status, WNOHANG) == pid) {
			if (!WIFEXITED(status))
				snprintf(result, bytes, "signal-%d", WTERMSIG(status));
			else if (WEXITSTATUS(status) < 5)
				snprintf(result, bytes, "%s", what[WEXITSTATUS(status)]);
			else
				snprintf(result, bytes, "exit-%d", WEXITSTATUS(status));
			break;
		}
		usleep(50000);
	}
	kill(-pid, SIGKILL);
	/* Its own too, if it was cut, and those that it left to this process. */
	while (waitpid(-1, &status, !strcmp(result, "timeout") ? 0 : WNOHANG) > 0)
		;
}

static int is_case(const char *line)
{
	return !strncmp(line, "ok ", 3) || !strncmp(line, "not ok ", 7);
}

/* What the random caller wants to be known, whatever its result is. */
static int is_said(const char *line)
{
	return !strncmp(line, "SAYS ", 5) || !strncmp(line, "WRONG ", 6) || !strncmp(line, "HUNG ", 5);
}

/* The cases that failed in a try which is not the last. */
static void print_tried(const char *name, const char *log_path, int try)
{
	char line[LINE_BYTES];
	FILE *log = fopen(log_path, "r");

	while (log && fgets(line, sizeof(line), log)) {
		if (is_case(line) && line[0] == 'n')
			printf("TRIED %s, try %d: %.*s\n", name, try,
			       (int)strcspn(line, "\n"), line);
	}
	if (log)
		fclose(log);
}

/*
 * Some depend on when pages are swapped out, or how fast the guest is: what fails is
 * tried again, and said to have been.
 */
static void run_selftest(const char *command, const char *name, const char *log_path,
			 unsigned int seconds, char *result, size_t bytes)
{
	uint64_t begin = now_ns();
	int tries = 1;

	for (;; tries++) {
		try_selftest(command, log_path, seconds, result, bytes);
		if (tries == TRIES || strcmp(result, "fail"))
			break;
		print_tried(name, log_path, tries);
	}
	printf("SELFTEST %s %s, %llu s", name, result,
	       (unsigned long long)((now_ns() - begin) / 1000000000));
	printf(tries > 1 ? ", try %d\n" : "\n", tries);
}

/*
 * The test's own lines: its cases, so that they can be compared, too; and what it
 * said last if it did not pass, so that one sees why.
 */
static void print_lines(const char *name, const char *log_path, int passed)
{
	char line[LINE_BYTES];
	unsigned int others = 0, seen = 0;
	FILE *log = fopen(log_path, "r");

	if (!log)
		return;
	while (fgets(line, sizeof(line), log))
		others += strncmp(line, "ok ", 3) != 0;
	rewind(log);
	while (fgets(line, sizeof(line), log)) {
		int end = strcspn(line, "\n");

		if (is_case(line))
			printf("CASE %s %.*s\n", name, end, line);
		else if (is_said(line))
			printf("%.*s\n", end, line);
		else if (!passed && seen + 12 >= others)
			printf("NOTE %s %.*s\n", name, end, line);
		seen += strncmp(line, "ok ", 3) != 0;
	}
	fclose(log);
	unlink(log_path);
}

/* Each line of /selftests.list is a command. */
static void run_selftests(unsigned int seconds)
{
	char command[LINE_BYTES], name[LINE_BYTES], result[32];
	FILE *list = fopen("/selftests.list", "r");
	char *at;

	while (list && fgets(command, sizeof(command), list)) {
		command[strcspn(command, "\n")] = 0;
		snprintf(name, sizeof(name), "%s", command + strspn(command, "./"));
		for (at = name; *at; at++) {
			if (*at == ' ')
				*at = '_';
		}
		run_selftest(command, name, "/tmp/selftest.log", seconds, result,
			     sizeof(result));
		print_lines(name, "/tmp/selftest.log", !strcmp(result, "pass"));
		fflush(stdout);
	}
	if (list)
		fclose(list);
}

/* How many memory nodes there are: 0 and 1 are wanted. */
static unsigned int count_nodes(void)
{
	char path[64];
	unsigned int n = 0;

	do
		snprintf(path, sizeof(path), "/sys/devices/system/node/node%u", n);
	while (!access(path, F_OK) && ++n);
	return n;
}

static void write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		printf("GUEST %s: %s\n", path, strerror(errno));
	if (fd >= 0)
		close(fd);
}

static void fill(char *at, size_t pages, unsigned int value)
{
	for (size_t i = 0; i < pages; i++) {
		memset(at + i * page_bytes, 0, 64);
		snprintf(at + i * page_bytes, 64, "%u %zu", value, i);
	}
}

static int wrong(const char *at, size_t pages, unsigned int value)
{
	char want[64];
	int bad = 0;

	for (size_t i = 0; i < pages; i++) {
		snprintf(want, sizeof(want), "%u %zu", value, i);
		bad += strcmp(at + i * page_bytes, want) != 0;
	}
	return bad;
}

static int pages_on(char *at, size_t pages, int node)
{
	int on = 0;

	for (size_t i = 0; i < pages; i++) {
		void *page = at + i * page_bytes;
		int status = -1;

		if (!syscall(SYS_move_pages, 0, 1, &page, NULL, &status, 0))
			on += status == node;
	}
	return on;
}

/* Each child writes everything (or reads, if @shared), and looks again at the end. */
static void move(unsigned int forks, size_t pages, int shared, const char *engine)
{
	unsigned long mask = 1;
	int ready[2], leave[2], bad = 0, status;
	uint64_t begin, ns = 0;
	unsigned int forked = 0;
	char byte = 0, *at;

	at = mmap(NULL, pages * page_bytes, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED || pipe(ready) || pipe(leave))
		return;
	madvise(at, pages * page_bytes, MADV_NOHUGEPAGE);
	syscall(SYS_mbind, at, pages * page_bytes, MPOL_BIND, &mask, 64, 0);
	fill(at, pages, 0);
	for (; forked < forks; forked++) {
		pid_t pid = fork();

		if (pid < 0)
			break;
		if (!pid) {
			unsigned int value = shared ? 0 : forked + 1;

			close(leave[1]);
			if (!shared)
				fill(at, pages, value);
			if (write(ready[1], &byte, 1) != 1)
				_exit(1);
			if (read(leave[0], &byte, 1) != 0)
				_exit(1);
			_exit(wrong(at, pages, value) != 0);
		}
	}
	bad += forks - forked;
	/* Ends of the children: if one is killed, nobody waits for it. */
	close(ready[1]);
	close(leave[0]);
	for (unsigned int i = 0; i < forked; i++)
		bad += read(ready[0], &byte, 1) != 1;
	/* There and back.  The guest's clock may have no more than jiffies. */
	for (int i = 0; i < MOVES; i++) {
		int node = !(i & 1);

		mask = 1ul << node;
		begin = now_ns();
		if (syscall(SYS_mbind, at, pages * page_bytes, MPOL_BIND, &mask, 64,
			    MPOL_MF_STRICT | (shared ? MPOL_MF_MOVE_ALL : MPOL_MF_MOVE)))
			bad++;
		ns += now_ns() - begin;
		if (pages_on(at, pages, node) != (int)pages)
			bad++;
		bad += wrong(at, pages, 0);
	}
	close(leave[1]);
	for (unsigned int i = 0; i < forked; i++) {
		wait(&status);
		bad += status != 0;
	}
	printf("MBIND {\"bench\":\"mbind\",\"engine\":\"%s\",\"case\":\"%s-%u\",\"pages\":%zu,\"forked\":%u,\"mean_us\":%llu,\"bad\":%d}\n",
	       engine, shared ? "shared" : "forks", forks, pages, forked,
	       (unsigned long long)ns / 1000 / MOVES, bad);
	fflush(stdout);
	munmap(at, pages * page_bytes);
	close(ready[0]);
}

#define MAP_SWAPPED	(1ull << 62)
#define MAP_PRESENT	(1ull << 63)
#define MAP_FRAME	((1ull << 55) - 1)
#define KPF_SWAPCACHE	(1ull << 13)

/* One word of a file of words; 0 if there is none. */
static uint64_t word_at(const char *path, uint64_t index)
{
	uint64_t word = 0;
	int fd = open(path, O_RDONLY);

	if (fd >= 0 && pread(fd, &word, sizeof(word), index * sizeof(word)) != sizeof(word))
		word = 0;
	if (fd >= 0)
		close(fd);
	return word;
}

static uint64_t mapping_of(const char *at)
{
	return word_at("/proc/self/pagemap", (uintptr_t)at / page_bytes);
}

static int pages_swapped(const char *at, size_t pages)
{
	int swapped = 0;

	for (size_t i = 0; i < pages; i++)
		swapped += (mapping_of(at + i * page_bytes) & MAP_SWAPPED) != 0;
	return swapped;
}

static int pages_in_swap_cache(const char *at, size_t pages)
{
	int cached = 0;

	for (size_t i = 0; i < pages; i++) {
		uint64_t map = mapping_of(at + i * page_bytes);

		cached += map & MAP_PRESENT &&
			  word_at("/proc/kpageflags", map & MAP_FRAME) & KPF_SWAPCACHE;
	}
	return cached;
}

#define CACHED_PAGES	64

/* How many of a process's pages are on a node after they have been asked to go there. */
static int move_to(pid_t pid, char *at, int node)
{
	int nodes[CACHED_PAGES], status[CACHED_PAGES], moved = 0;
	void *page[CACHED_PAGES];

	for (int i = 0; i < CACHED_PAGES; i++) {
		page[i] = at + i * page_bytes;
		nodes[i] = node;
		status[i] = -1;
	}
	syscall(SYS_move_pages, pid, CACHED_PAGES, page, nodes, status, MPOL_MF_MOVE_ALL);
	for (int i = 0; i < CACHED_PAGES; i++)
		moved += status[i] == node;
	return moved;
}

/*
 * Moves what is mapped and in the swap cache, beside forks, which copy migration entries.
 * @holders are forked while all is swapped out, and read nothing until the end: their
 * swap entries keep the pages in the cache, where they find them then.
 */
static void move_in_swap_cache(unsigned int holders, const char *engine)
{
	int leave[2], bad = 0, status, swapped, cached, moved = 0;
	unsigned int held = 0, forked = 0;
	size_t bytes = CACHED_PAGES * page_bytes;
	char byte = 0, *at;
	pid_t mover;

	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED || pipe(leave))
		return;
	madvise(at, bytes, MADV_NOHUGEPAGE);
	fill(at, CACHED_PAGES, 0);
	for (int i = 0; i < 10 && pages_swapped(at, CACHED_PAGES) < CACHED_PAGES; i++)
		madvise(at, bytes, MADV_PAGEOUT);
	swapped = pages_swapped(at, CACHED_PAGES);
	for (; held < holders; held++) {
		pid_t pid = fork();

		if (pid < 0)
			break;
		if (!pid) {
			int failed;

			close(leave[1]);
			failed = read(leave[0], &byte, 1) != 0;
			failed += wrong(at, CACHED_PAGES, 0);
			fill(at, CACHED_PAGES, held + 1);
			_exit(failed + wrong(at, CACHED_PAGES, held + 1) != 0);
		}
	}
	bad += holders - held;
	bad += wrong(at, CACHED_PAGES, 0);
	cached = pages_in_swap_cache(at, CACHED_PAGES);
	mover = fork();
	if (!mover) {
		close(leave[1]);
		/* To the other node at the end. */
		for (int i = 0; i < MOVES; i++)
			moved += move_to(getppid(), at, !(i & 1));
		_exit(moved / MOVES);
	}
	bad += mover < 0;
	/* Children of a parent whose pages are on their way. */
	while (mover > 0) {
		pid_t pid = waitpid(mover, &status, WNOHANG);

		if (pid == mover)
			break;
		pid = fork();
		if (!pid)
			_exit(wrong(at, CACHED_PAGES, 0) != 0);
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
			bad++;
		forked++;
		bad += wrong(at, CACHED_PAGES, 0);
	}
	moved = mover > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
	/* Nobody forks now: all of them go. */
	bad += move_to(getpid(), at, 1) != CACHED_PAGES;
	bad += pages_on(at, CACHED_PAGES, 1) != CACHED_PAGES;
	bad += pages_in_swap_cache(at, CACHED_PAGES) != cached;
	bad += wrong(at, CACHED_PAGES, 0);
	close(leave[0]);
	close(leave[1]);
	for (unsigned int i = 0; i < held; i++) {
		wait(&status);
		bad += status != 0;
	}
	bad += wrong(at, CACHED_PAGES, 0);
	printf("SWAPCACHE {\"bench\":\"move-in-swap-cache\",\"engine\":\"%s\",\"pages\":%d,\"swapped\":%d,\"cached\":%d,\"forked\":%u,\"moved_each_time\":%d,\"bad\":%d}\n",
	       engine, CACHED_PAGES, swapped, cached, forked, moved, bad);
	fflush(stdout);
	munmap(at, bytes);
}

#define SYSLOG_ACTION_READ_ALL		3
#define SYSLOG_ACTION_SIZE_BUFFER	10
#define KERN_WARNING_LEVEL		4

/* Warnings and worse, of which the console shows only the worse. */
static void print_kernel_log(void)
{
	int bytes = klogctl(SYSLOG_ACTION_SIZE_BUFFER, NULL, 0);
	char *log = bytes > 0 ? malloc(bytes + 1) : NULL, *line, *rest;
	unsigned int level = 0, lines = 0, shown = 0;

	bytes = log ? klogctl(SYSLOG_ACTION_READ_ALL, log, bytes) : -1;
	if (bytes <= 0) {
		printf("GUEST no kernel log\n");
		return;
	}
	log[bytes] = 0;
	rest = log;
	while ((line = strsep(&rest, "\n"))) {
		if (sscanf(line, "<%u>", &level) != 1)
			continue;
		lines++;
		if ((level & 7) <= KERN_WARNING_LEVEL) {
			printf("KERNEL %s\n", line);
			shown++;
		}
	}
	printf("GUEST kernel log: %u lines, %u of them warnings or worse\n", lines, shown);
	free(log);
}

int main(void)
{
	const char *seconds = getenv("lab_seconds"), *engine = getenv("lab_engine");
	const char *moves = getenv("lab_moves"), *suite = getenv("lab_suite");
	char run[128];
	struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };

	page_bytes = sysconf(_SC_PAGESIZE);
	mkdir("/proc", 0755);
	mkdir("/sys", 0755);
	mkdir("/dev", 0755);
	mkdir("/tmp", 0777);
	mount("proc", "/proc", "proc", 0, NULL);
	mount("sysfs", "/sys", "sysfs", 0, NULL);
	mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	mkdir("/dev/shm", 0777);
	mount("tmpfs", "/tmp", "tmpfs", 0, NULL);
	mount("tmpfs", "/dev/shm", "tmpfs", 0, NULL);
	mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	setrlimit(RLIMIT_NPROC, &limit);
	setrlimit(RLIMIT_MEMLOCK, &limit);
	if (!engine)
		engine = "baseline";
	printf("GUEST swap %s, %u nodes, %ld processors\n", swap_on("/dev/ram0") ? "off" : "on",
	       count_nodes(), sysconf(_SC_NPROCESSORS_ONLN));
	write_to("/proc/sys/vm/nr_hugepages", "64");
	/* Now that there is swap space. */
	if (suite) {
		snprintf(run, sizeof(run), "/sys/kernel/debug/kunit/%s/run", suite);
		write_to(run, "1");
	}
	fflush(stdout);
	if (moves && !strcmp(moves, "mail")) {
		move(1000, 5 * 1024 * 1024 / page_bytes, 0, engine);
	} else if (!getenv("lab_no_moves")) {
		move(1, 64, 0, engine);
		move(10, 64, 0, engine);
		move(10, 64, 1, engine);
		move(100, 64, 0, engine);
		move(1000, 64, 0, engine);
		move_in_swap_cache(10, engine);
	}
	run_selftests(seconds ? atoi(seconds) : 120);
	print_kernel_log();
	printf("GUEST done\n");
	fflush(stdout);
	/* The console may have some of it to say still. */
	tcdrain(STDOUT_FILENO);
	sync();
	reboot(RB_AUTOBOOT);
	return 0;
}
