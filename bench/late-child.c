/* SPDX-License-Identifier: BSD-3-Clause */

/* See the header. */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/late-child.h"

#define HANG_MS 20000
#define HANGS_MAX 3
#define SHORT_TRIES 8

uint64_t late_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

uint64_t late_delay(size_t size)
{
	static uint64_t x;

	/* Each process has delays of its own, also one that was forked. */
	if (!x)
		x = late_now() * 0x9e3779b97f4a7c15 + (uint64_t)getpid();
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x % (20000 + size / 8);
}

void late_delay_spin(size_t size)
{
	uint64_t until = late_now() + late_delay(size);

	while (late_now() < until)
		;
}

unsigned int late_settle_us(size_t size)
{
	return 200 + (unsigned int)(size >> 13);
}

void late_paint(char *memory, size_t size)
{
	memset(memory, LATE_OURS, size);
}

uint64_t late_count_bytes(const char *memory, size_t size)
{
	uint64_t n = 0;

	for (size_t i = 0; i < size; i++)
		n += memory[i] != LATE_OURS;
	return n;
}

void late_skip(struct late_one *one, const char *why)
{
	snprintf(one->why, sizeof(one->why), "%s", why);
	/* A message of one line, without what ends a string of JSON. */
	for (char *p = one->why; *p; p++)
		if (*p == '"' || *p == '\\' || *p < ' ')
			*p = '\'';
	_exit(LATE_SKIP);
}

/* The child has @hold[1] open for as long as it or a child of its own runs. */
static pid_t begin(int hold[2], struct late_one *one, late_fn *fn,
		   const void *arg, size_t size)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid)
		return pid;
	close(hold[0]);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpgid(0, 0);
	fn(one, size, arg);
	_exit(0);
}

static int one_child(struct late_sum *sum, struct late_one *one, late_fn *fn,
		     const void *arg, size_t size)
{
	struct pollfd p = { .events = POLLIN };
	int hold[2], status = 0, n;
	pid_t pid;

	memset(one, 0, sizeof(*one));
	if (pipe(hold))
		return -errno;
	pid = begin(hold, one, fn, arg, size);
	close(hold[1]);
	p.fd = hold[0];
	do {
		n = pid < 0 ? 0 : poll(&p, 1, HANG_MS);
	} while (n < 0 && errno == EINTR);
	close(hold[0]);
	if (pid < 0)
		return -errno;
	if (!n)
		kill(-pid, SIGKILL);
	kill(pid, n ? 0 : SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == LATE_SKIP)
		return -EOPNOTSUPP;
	if (!n)
		sum->hung++;
	else if (status)
		sum->crashed++;
	return n ? status : -ETIMEDOUT;
}

static void add(struct late_sum *sum, const struct late_one *one)
{
	sum->late += one->bytes > 0;
	sum->bytes += one->bytes;
	sum->refused += (uint64_t)!!one->refused;
	if (one->bytes > sum->most)
		sum->most = one->bytes;
	if (one->end_ns > sum->worst_ns)
		sum->worst_ns = one->end_ns;
}

void late_repeat(struct late_sum *sum, late_fn *fn, const void *arg,
		 size_t size, int n)
{
	struct late_one *one = mmap(NULL, sizeof(*one), PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;

	if (one == MAP_FAILED) {
		snprintf(sum->why, sizeof(sum->why), "no memory");
		return;
	}
	/* What began too early is no ending, and is tried again; but not for
	 * ever, and what is always too short to be caught is soon given up. */
	for (int i = 0, tries = 0; i < n && tries < 4 * n &&
	     (i || tries < SHORT_TRIES); tries++) {
		status = one_child(sum, one, fn, arg, size);
		if (status == -EOPNOTSUPP) {
			if (!sum->tried)
				memcpy(sum->why, one->why, sizeof(sum->why));
			break;
		}
		if (!status && one->too_early)
			continue;
		i++;
		sum->tried++;
		if (!status)
			add(sum, one);
		else if (sum->hung >= HANGS_MAX)
			break;
	}
	if (!sum->tried && !sum->why[0])
		snprintf(sum->why, sizeof(sum->why),
			 "no transfer was found in flight");
	munmap(one, sizeof(*one));
}

#define FORM "late %llu %llu %llu %llu %llu %llu %llu %llu"

void late_print(const struct late_sum *sum, FILE *out)
{
	fprintf(out, FORM " %s %s\n", (unsigned long long)sum->tried,
		(unsigned long long)sum->late, (unsigned long long)sum->bytes,
		(unsigned long long)sum->most,
		(unsigned long long)sum->worst_ns,
		(unsigned long long)sum->refused,
		(unsigned long long)sum->crashed,
		(unsigned long long)sum->hung,
		sum->version[0] ? sum->version : "-", sum->why);
}

int late_parse(struct late_sum *sum, const char *line)
{
	unsigned long long v[8];

	memset(sum, 0, sizeof(*sum));
	if (sscanf(line, FORM " %31s %95[^\n]", &v[0], &v[1], &v[2], &v[3],
		   &v[4], &v[5], &v[6], &v[7], sum->version, sum->why) < 9)
		return -1;
	sum->tried = v[0];
	sum->late = v[1];
	sum->bytes = v[2];
	sum->most = v[3];
	sum->worst_ns = v[4];
	sum->refused = v[5];
	sum->crashed = v[6];
	sum->hung = v[7];
	return 0;
}
