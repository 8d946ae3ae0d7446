// SPDX-License-Identifier: GPL-2.0-only
/*
 * The only program of the lab's QEMU guests, except for the kernel's selftests.
 *
 * As init it gives the guest swap space, runs every selftest in /selftests, each
 * with a time limit, and prints a line "SELFTEST NAME RESULT"; then it moves forked
 * memory between the guest's two nodes by mbind(), checks every page of every
 * process, and prints a line of JSON; and then it reboots, which ends QEMU.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MPOL_BIND	2
#define MPOL_MF_STRICT	1
#define MPOL_MF_MOVE	2
#define MPOL_MF_MOVE_ALL 4

static size_t page_bytes;

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

/* Runs one selftest, of which only its exit code counts. */
static void run_selftest(const char *name, unsigned int seconds)
{
	static const char *const what[] = { "pass", "fail", "xfail", "xpass", "skip" };
	char path[300];
	int status = 0, fd[2];
	pid_t pid;

	snprintf(path, sizeof(path), "/selftests/%s", name);
	if (pipe(fd))
		return;
	pid = fork();
	if (!pid) {
		int log;

		snprintf(path, sizeof(path), "/tmp/%s.log", name);
		log = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
		dup2(log, 1);
		dup2(log, 2);
		setpgid(0, 0);
		alarm(0);
		snprintf(path, sizeof(path), "/selftests/%s", name);
		chdir("/selftests");
		execl(path, name, NULL);
		_exit(4);
	}
	for (unsigned int i = 0; i < seconds * 10; i++) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			break;
		usleep(100000);
		if (i == seconds * 10 - 1) {
			kill(-pid, SIGKILL);
			waitpid(pid, &status, 0);
			printf("SELFTEST %s timeout\n", name);
			return;
		}
	}
	kill(-pid, SIGKILL);
	if (!WIFEXITED(status))
		printf("SELFTEST %s signal-%d\n", name, WTERMSIG(status));
	else if (WEXITSTATUS(status) < 5)
		printf("SELFTEST %s %s\n", name, what[WEXITSTATUS(status)]);
	else
		printf("SELFTEST %s exit-%d\n", name, WEXITSTATUS(status));
}

/* The test's own lines, so that cases can be compared, too. */
static void print_cases(const char *name)
{
	char path[300], line[400];
	FILE *log;

	snprintf(path, sizeof(path), "/tmp/%s.log", name);
	log = fopen(path, "r");
	while (log && fgets(line, sizeof(line), log)) {
		if (!strncmp(line, "ok ", 3) || !strncmp(line, "not ok ", 7))
			printf("CASE %s %s", name, line);
	}
	if (log)
		fclose(log);
	unlink(path);
}

static void run_selftests(unsigned int seconds)
{
	struct dirent **names;
	int n = scandir("/selftests", &names, NULL, alphasort);

	for (int i = 0; i < n; i++) {
		if (names[i]->d_name[0] == '.')
			continue;
		run_selftest(names[i]->d_name, seconds);
		print_cases(names[i]->d_name);
		fflush(stdout);
	}
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
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
	uint64_t begin, ns, best = ~0ull;
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
	for (unsigned int i = 0; i < forked; i++)
		bad += read(ready[0], &byte, 1) != 1;
	/* There and back, three times. */
	for (int i = 0; i < 6; i++) {
		int node = !(i & 1);

		mask = 1ul << node;
		begin = now_ns();
		if (syscall(SYS_mbind, at, pages * page_bytes, MPOL_BIND, &mask, 64,
			    MPOL_MF_STRICT | (shared ? MPOL_MF_MOVE_ALL : MPOL_MF_MOVE)))
			bad++;
		ns = now_ns() - begin;
		if (ns < best)
			best = ns;
		if (pages_on(at, pages, node) != (int)pages)
			bad++;
		bad += wrong(at, pages, 0);
	}
	close(leave[1]);
	for (unsigned int i = 0; i < forked; i++) {
		wait(&status);
		bad += status != 0;
	}
	printf("MBIND {\"bench\":\"mbind\",\"engine\":\"%s\",\"case\":\"%s-%u\",\"pages\":%zu,\"forked\":%u,\"best_us\":%llu,\"bad\":%d}\n",
	       engine, shared ? "shared" : "forks", forks, pages, forked,
	       (unsigned long long)best / 1000, bad);
	fflush(stdout);
	munmap(at, pages * page_bytes);
	close(ready[0]);
	close(ready[1]);
	close(leave[0]);
}

int main(void)
{
	const char *seconds = getenv("lab_seconds"), *engine = getenv("lab_engine");
	struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };

	page_bytes = sysconf(_SC_PAGESIZE);
	mkdir("/proc", 0755);
	mkdir("/sys", 0755);
	mkdir("/dev", 0755);
	mkdir("/tmp", 0777);
	mount("proc", "/proc", "proc", 0, NULL);
	mount("sysfs", "/sys", "sysfs", 0, NULL);
	mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	mount("tmpfs", "/tmp", "tmpfs", 0, NULL);
	setrlimit(RLIMIT_NPROC, &limit);
	setrlimit(RLIMIT_MEMLOCK, &limit);
	if (!engine)
		engine = "baseline";
	printf("GUEST swap %s\n", swap_on("/dev/ram0") ? "off" : "on");
	fflush(stdout);
	move(1, 64, 0, engine);
	move(10, 64, 0, engine);
	move(10, 64, 1, engine);
	move(100, 64, 0, engine);
	move(1000, 64, 0, engine);
	run_selftests(seconds ? atoi(seconds) : 120);
	printf("GUEST done\n");
	fflush(stdout);
	sync();
	reboot(RB_AUTOBOOT);
	return 0;
}
