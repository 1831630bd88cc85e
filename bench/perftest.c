/* SPDX-License-Identifier: BSD-3-Clause */

/* Programs of perftest: started, waited for, and read: see perftest.h. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/perftest.h"

#define PORT 18515
#define ARGS_MAX 16
#define OUTPUT_MAX 8192
#define COLUMNS_MAX 16

bool perftest_has(const char *program)
{
	char command[96];

	snprintf(command, sizeof(command), "command -v %s >/dev/null 2>&1",
		 program);
	return system(command) == 0;
}

/* The arguments of one end; only the one that measures has a peer's name. */
static void arguments(const struct perftest *p, bool measures, char *n,
		      char *bytes, const char **args)
{
	int i = 0;

	args[i++] = p->program;
	args[i++] = "-F";
	args[i++] = "-d";
	args[i++] = p->device;
	args[i++] = "-x";
	args[i++] = p->gid;
	args[i++] = "-s";
	args[i++] = bytes;
	args[i++] = "-n";
	args[i++] = n;
	if (p->events)
		args[i++] = "-e";
	if (measures)
		args[i++] = "localhost";
	args[i] = NULL;
}

static pid_t start(const struct perftest *p, bool measures, int out)
{
	const char *args[ARGS_MAX];
	char n[16], bytes[16];
	pid_t pid = fork();

	if (pid < 0)
		bench_die("fork", errno);
	if (pid)
		return pid;
	snprintf(n, sizeof(n), "%u", p->n);
	snprintf(bytes, sizeof(bytes), "%u", p->bytes);
	arguments(p, measures, n, bytes, args);
	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	execvp(p->program, (char *const *)args);
	_exit(127);
}

/* Whether a process listens at the port where the two ends find each other. */
static bool listens(const char *table)
{
	char line[256], port[16];
	FILE *f = fopen(table, "r");
	bool found = false;

	if (!f)
		return false;
	snprintf(port, sizeof(port), ":%04X ", PORT);
	while (!found && fgets(line, sizeof(line), f))
		found = strstr(line, port) && strstr(line, " 0A ");
	fclose(f);
	return found;
}

/* It is waited for, but left to who reaps it. */
static bool has_ended(pid_t pid)
{
	siginfo_t info = { 0 };

	waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT);
	return info.si_pid == pid;
}

static bool wait_for_listener(pid_t pid)
{
	for (int i = 0; i < 1000 && !has_ended(pid); i++) {
		if (listens("/proc/net/tcp") || listens("/proc/net/tcp6"))
			return true;
		usleep(10000);
	}
	return false;
}

static size_t read_all(int fd, char *text, size_t size)
{
	size_t len = 0;
	ssize_t n;

	while ((n = read(fd, text + len, size - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = 0;
	return len;
}

/* The line behind the one that names the columns has the figures. */
static bool parse(const char *text, int column, double *ret)
{
	const char *at = strstr(text, "#bytes");
	int used = 0;

	at = at ? strchr(at, '\n') : NULL;
	for (int i = 0; at && i <= column; i++, at += used)
		if (sscanf(at, "%lf%n", ret, &used) != 1)
			at = NULL;
	return at != NULL;
}

static double cpu_of(const struct rusage *use)
{
	return 1e9 * (double)(use->ru_utime.tv_sec + use->ru_stime.tv_sec) +
	       1e3 * (double)(use->ru_utime.tv_usec + use->ru_stime.tv_usec);
}

/* The end that measures, while the other one listens. */
static bool measure(const struct perftest *p, struct perftest_result *ret)
{
	char text[OUTPUT_MAX];
	struct rusage use;
	int out[2], status;
	bool good;
	pid_t pid;

	if (pipe(out))
		bench_die("pipe", errno);
	pid = start(p, true, out[1]);
	close(out[1]);
	read_all(out[0], text, sizeof(text));
	close(out[0]);
	wait4(pid, &status, 0, &use);
	ret->cpu_ns = cpu_of(&use);
	good = status == 0 && parse(text, p->column, &ret->figure);
	if (!good)
		fprintf(stderr, "%s: %s\n", p->program, text);
	return good;
}

/* The listening end would wait for ever for an end that has failed. */
bool perftest_run(const struct perftest *p, struct perftest_result *ret)
{
	int null = open("/dev/null", O_WRONLY);
	pid_t other;
	bool good;

	if (null < 0)
		bench_die("/dev/null", errno);
	other = start(p, false, null);
	close(null);
	good = wait_for_listener(other);
	if (good)
		good = measure(p, ret);
	else
		fprintf(stderr, "%s does not listen\n", p->program);
	if (!good)
		kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	return good;
}
