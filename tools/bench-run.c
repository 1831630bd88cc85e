/* SPDX-License-Identifier: BSD-3-Clause */

/* Runs the programs, one after the other; each adds its lines to a file. */

#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <weir/base.h>

#include "bench.h"
#include "tool.h"

#define ARGS_MAX 64

/* Where the programs are: installed, or where WEIR_BENCH_DIR says. */
static const char *where(void)
{
	const char *dir = getenv("WEIR_BENCH_DIR");

	return dir && *dir ? dir : WEIR_LIBEXECDIR;
}

/* Without the characters that JSON would want to escape. */
static void plain(char *text)
{
	for (; *text; text++)
		if (*text == '"' || *text == '\\' || *text < ' ')
			*text = ' ';
}

static void cpu_name(char *to, size_t size)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[256], *colon;

	snprintf(to, size, "unknown");
	while (f && fgets(line, sizeof(line), f)) {
		colon = strchr(line, ':');
		if (strncmp(line, "model name", 10) || !colon)
			continue;
		line[strcspn(line, "\n")] = '\0';
		snprintf(to, size, "%s", colon + 2);
		break;
	}
	if (f)
		fclose(f);
	plain(to);
}

static void write_machine(FILE *out)
{
	time_t now = time(NULL);
	struct sysinfo info = { 0 };
	struct utsname name;
	char cpu[128], date[32];

	uname(&name);
	sysinfo(&info);
	cpu_name(cpu, sizeof(cpu));
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
	fprintf(out, "{\"machine\":\"%s\",\"cpu\":\"%s\",\"cpus\":\"%ld\","
		"\"memory\":\"%llu MiB\",\"kernel\":\"%s %s\","
		"\"compiler\":\"%s\",\"date\":\"%s\"}\n", name.machine, cpu,
		sysconf(_SC_NPROCESSORS_ONLN),
		(unsigned long long)info.totalram * info.mem_unit >> 20,
		name.sysname, name.release, __VERSION__, date);
}

static void become(const char *program, char *const *argv, bool quiet)
{
	int fd = -1;

	if (quiet)
		fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (quiet && (fd < 0 || dup2(fd, STDOUT_FILENO) < 0))
		_exit(126);
	execv(program, argv);
	_exit(errno == ENOENT ? 127 : 126);
}

static int wait_for(pid_t pid, const char *program)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return failed("waitpid: %s", strerror(errno));
	if (WIFSIGNALED(status))
		return failed("%s was ended by signal %d", program,
			      WTERMSIG(status));
	switch (WEXITSTATUS(status)) {
	case 0:
		return EXIT_OK;
	case 2:
		return EXIT_USAGE;
	case 127:
		return failed("there is no %s; WEIR_BENCH_DIR can say where "
			      "the programs are", program);
	default:
		return failed("%s failed with status %d", program,
			      WEXITSTATUS(status));
	}
}

static int run_program(const struct wanted *w, const struct program *p,
		       const char *path)
{
	char program[4096];
	char *argv[ARGS_MAX + 4];
	size_t n = 0;
	pid_t pid;

	if (snprintf(program, sizeof(program), "%s/bench-%s", where(),
		     p->name) >= (int)sizeof(program))
		return failed("%s: %s", where(), strerror(ENAMETOOLONG));
	argv[n++] = program;
	for (size_t i = 0; w->options[i] && n <= ARGS_MAX; i++)
		argv[n++] = (char *)(uintptr_t)w->options[i];
	argv[n++] = (char *)(uintptr_t)"--json";
	argv[n++] = (char *)(uintptr_t)path;
	argv[n] = NULL;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		return failed("fork: %s", strerror(errno));
	if (!pid)
		become(program, argv, w->quiet);
	return wait_for(pid, program);
}

int run_programs(struct wanted *w, const char *path)
{
	FILE *out = fopen(path, "we");
	int status = EXIT_OK, one;

	if (!out)
		return failed("cannot write %s: %s", path, strerror(errno));
	write_machine(out);
	if (fclose(out))
		return failed("cannot write %s: %s", path, strerror(errno));
	for (size_t i = 0; i < w->n_programs; i++) {
		one = run_program(w, w->programs[i], path);
		if (one == EXIT_USAGE)
			return one;
		if (one)
			status = one;	/* The others may still be of use. */
		else
			w->n_done++;
	}
	return status;
}
