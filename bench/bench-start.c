/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * What a program pays for being linked with a library before it does anything:
 * the time from its start to its end, of one that does nothing, and of one that
 * creates the library's loop and ends it; "bare" is a C program without any.
 * "beyond bare" is the difference.
 *
 * And the memory that a core takes: a reactor, a pool of 64 buffers and a
 * context, without the data of the buffers.
 */

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/base.h>

#include "bench/bench.h"

extern char **environ;

static struct program {
	const char *variant, *name;
	char path[4096];
} programs[] = {
	{ "bare", "start-bare", "" },
	{ "weir", "start-weir", "" },
#ifdef HAVE_LIBEV
	{ "libev", "start-libev", "" },
#endif
#ifdef HAVE_LIBUV
	{ "libuv", "start-libuv", "" },
#endif
};

#define STARTS_MAX 99

static int starts;	/* Of each program, in a repetition. */

/* Beside this one, or, in a build directory, where libtool has made none in
 * .libs, above it. */
static void find(struct program *p)
{
	static const char *const where[] = { "", "../" };
	ssize_t n = readlink("/proc/self/exe", p->path, sizeof(p->path) - 64);
	char *slash;

	p->path[n > 0 ? n : 0] = '\0';
	slash = strrchr(p->path, '/');
	if (!slash)
		bench_die("/proc/self/exe", errno);
	for (size_t i = 0; i < ARRAY_SIZE(where); i++) {
		sprintf(slash + 1, "%s%s", where[i], p->name);
		if (!access(p->path, X_OK))
			return;
	}
	bench_die(p->name, ENOENT);
}

/* From the start to the end of @p, in microseconds. */
static double run(struct program *p, char *how)
{
	char *argv[] = { p->path, how, NULL };
	uint64_t begun = bench_wall_ns();
	int status;
	pid_t pid;

	bench_must(-posix_spawn(&pid, p->path, NULL, NULL, argv, environ),
		   p->name);
	if (waitpid(pid, &status, 0) != pid || status)
		bench_die(p->name, ECHILD);
	return (double)(bench_wall_ns() - begun) / 1e3;
}

/* They take turns; of each, the median of its starts. */
static void measure(struct bench *b, const char *what, char *how)
{
	static double took[ARRAY_SIZE(programs)][STARTS_MAX];
	char beyond[48];
	double bare = 0, it;

	for (int n = 0; n < starts; n++)
		for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
			took[i][n] = run(&programs[i], how);
	snprintf(beyond, sizeof(beyond), "%s, beyond bare", what);
	for (size_t i = 0; i < ARRAY_SIZE(programs); i++) {
		it = bench_median_of(took[i], starts);
		bench_add(b, what, programs[i].variant, "us", it);
		if (i)
			bench_add(b, beyond, programs[i].variant, "us",
				  it - bare);
		else
			bare = it;
	}
}

/* What "core" of start-weir prints, where @backend works. */
static void measure_core(struct bench *b, const char *backend,
			 const char *variant)
{
	char command[4200];
	double kib;
	FILE *out;

	snprintf(command, sizeof(command), "WEIR_BACKEND=%s '%s' core 2>&1",
		 backend, programs[1].path);
	out = popen(command, "re");
	if (!out)
		bench_die("popen", errno);
	if (fscanf(out, "%lf", &kib) == 1)
		bench_add(b, "memory of a core", variant, "KiB", kib);
	else
		bench_note("%s is not there", variant);
	pclose(out);
}

int main(int argc, char **argv)
{
	static struct bench b;

	bench_init(&b, "start", argc, argv);
	b.reference = "bare";
	starts = b.quick ? 3 : STARTS_MAX;
	for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
		find(&programs[i]);
	for (bench_begin(&b); bench_next(&b); ) {
		measure(&b, "start", NULL);
		measure(&b, "start, loop", "loop");
		measure_core(&b, "uring", "weir uring");
		measure_core(&b, "ev", "weir ev");
	}
	bench_goal(&b, "start: at most 300 us beyond an empty program",
		   "start, beyond bare", "weir", NULL, BENCH_AT_MOST, 300);
	bench_goal(&b, "a core: at most 512 KiB", "memory of a core",
		   "weir uring", NULL, BENCH_AT_MOST, 512);
	bench_goal(&b, "a core: at most 512 KiB", "memory of a core", "weir ev",
		   NULL, BENCH_AT_MOST, 512);
	return bench_done(&b);
}
