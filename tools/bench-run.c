/* SPDX-License-Identifier: BSD-3-Clause */

/* Runs the programs one after the other.  Each appends its lines to a file, and
 * this appends how it ended. */

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <weir/base.h>

#include "bench.h"
#include "tool.h"

#define ARGS_MAX 64
#define LIMITS 10	/* A program with many rounds has so many times one's. */

/* How a program ended. */
struct outcome {
	int status;
	char text[96];		/* "ok", or what went wrong. */
};

/* The process group that is running, and the signal that ended it. */
static volatile pid_t running;
static volatile sig_atomic_t ended_by;

/* The directory of the programs, and the one that this is in. */
static char programs_dir[4096], own_dir[4096];

/*
 * Programs that are measured as a whole are installed beside this one, the
 * benchmarks in ../libexec/weir.  Both can be below another prefix than
 * configure was told, so that comes before the directory that configure named.
 */
static void find_programs(void)
{
	const char *dir = getenv("WEIR_BENCH_DIR");
	ssize_t n = readlink("/proc/self/exe", own_dir, sizeof(own_dir) - 1);
	char *end;

	own_dir[n > 0 ? n : 0] = 0;
	end = strrchr(own_dir, '/');
	if (end) {
		*end = 0;
		setenv("WEIR_BIN_DIR", own_dir, 0);
	}
	if (!dir || !*dir) {
		dir = WEIR_LIBEXECDIR;
		if (end && snprintf(programs_dir, sizeof(programs_dir),
				    "%s/../libexec/weir", own_dir) <
			   (int)sizeof(programs_dir) &&
		    !access(programs_dir, X_OK))
			return;
	}
	snprintf(programs_dir, sizeof(programs_dir), "%s", dir);
}

static void become(const char *program, char *const *argv, bool quiet)
{
	int fd = -1;

	if (quiet)
		fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (quiet && (fd < 0 || dup2(fd, STDOUT_FILENO) < 0))
		_exit(126);
	setpgid(0, 0);
	execv(program, argv);
	_exit(errno == ENOENT ? 127 : 126);
}

static void on_signal(int sig)
{
	if (running <= 0)
		_exit(EXIT_FAILED);
	ended_by = sig;
	kill(-running, sig == SIGALRM ? SIGKILL : sig);
}

/* A program and its children end with this process, or at the time limit. */
static void catch_signals(void)
{
	static const int signals[] = { SIGALRM, SIGINT, SIGTERM, SIGHUP };
	struct sigaction act = { .sa_handler = on_signal };

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &act, NULL);
}

__attribute__((format(printf, 3, 4)))
static void ended(struct outcome *how, int status, const char *fmt, ...)
{
	va_list ap;

	how->status = status;
	va_start(ap, fmt);
	vsnprintf(how->text, sizeof(how->text), fmt, ap);
	va_end(ap);
}

static void judge(struct outcome *how, int status, const struct wanted *w)
{
	if (WIFSIGNALED(status) && ended_by == SIGALRM)
		ended(how, EXIT_FAILED, "was ended after %g s",
		      w->limit * LIMITS);
	else if (WIFSIGNALED(status))
		ended(how, EXIT_FAILED, "was ended by signal %d",
		      WTERMSIG(status));
	else if (WEXITSTATUS(status) == 0)
		ended(how, EXIT_OK, "ok");
	else if (WEXITSTATUS(status) == 2)
		ended(how, EXIT_USAGE, "takes no such options");
	else if (WEXITSTATUS(status) == 127)
		ended(how, EXIT_FAILED, "is not there; WEIR_BENCH_DIR can say "
		      "where the programs are");
	else
		ended(how, EXIT_FAILED, "failed with status %d",
		      WEXITSTATUS(status));
}

static void start(const struct wanted *w, char **argv, struct outcome *how)
{
	struct itimerval end = {
		.it_value.tv_sec = (time_t)ceil(w->limit * LIMITS),
	}, never = { 0 };
	int status = 0, err = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0) {
		ended(how, EXIT_FAILED, "fork: %s", strerror(errno));
		return;
	}
	if (!pid)
		become(argv[0], argv, w->quiet);
	setpgid(pid, pid);
	running = pid;
	ended_by = 0;
	catch_signals();
	setitimer(ITIMER_REAL, &end, NULL);
	/* The signal went to the process group, so the program got it, too. */
	while (waitpid(pid, &status, 0) < 0 && !err)
		err = errno == EINTR ? 0 : errno;
	setitimer(ITIMER_REAL, &never, NULL);
	running = 0;
	if (err)
		ended(how, EXIT_FAILED, "waitpid: %s", strerror(err));
	else
		judge(how, status, w);
}

static void run_program(const struct wanted *w, const struct program *p,
			const char *path, struct outcome *how)
{
	char program[4096], limit[32];
	char *argv[ARGS_MAX + 6];
	size_t n = 0;

	if (snprintf(program, sizeof(program), "%s/bench-%s", programs_dir,
		     p->name) >= (int)sizeof(program)) {
		ended(how, EXIT_FAILED, "%s", strerror(ENAMETOOLONG));
		return;
	}
	argv[n++] = program;
	for (size_t i = 0; w->options[i] && n <= ARGS_MAX; i++)
		argv[n++] = (char *)(uintptr_t)w->options[i];
	if (w->limit > 0) {
		snprintf(limit, sizeof(limit), "--limit=%g", w->limit);
		argv[n++] = limit;
	}
	argv[n++] = (char *)(uintptr_t)"--json";
	argv[n++] = (char *)(uintptr_t)path;
	argv[n] = NULL;
	start(w, argv, how);
	if (how->status)
		failed("%s %s", program, how->text);
}

static int note_outcome(const struct program *p, const struct outcome *how,
			double seconds, const char *path)
{
	FILE *out = fopen(path, "ae");

	if (!out)
		return failed("cannot write %s: %s", path, strerror(errno));
	fprintf(out, "{\"ran\":\"%s\",\"ended\":\"%s\",\"seconds\":%.1f}\n",
		p->name, how->text, seconds);
	return close_output(out, path);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int begin_file(const struct wanted *w, const char *path)
{
	FILE *out = fopen(path, "we");

	if (!out)
		return failed("cannot write %s: %s", path, strerror(errno));
	write_machine(out, w->options);
	write_peers(out);
	return close_output(out, path);
}

int run_programs(struct wanted *w, const char *path)
{
	int status = w->go_on ? EXIT_OK : begin_file(w, path), noted;
	/* If this process is killed, the line says that the figures before it
	 * do not count. */
	const struct outcome cut_off = { .text = "was cut off" };
	struct outcome how;
	double begun;

	if (status)
		return status;
	find_programs();
	for (size_t i = 0; i < w->n_programs; i++) {
		begun = now();
		if (note_outcome(w->programs[i], &cut_off, 0, path))
			return EXIT_FAILED;
		run_program(w, w->programs[i], path, &how);
		noted = note_outcome(w->programs[i], &how, now() - begun, path);
		if (how.status == EXIT_USAGE)
			return EXIT_USAGE;
		if (how.status || noted)
			status = EXIT_FAILED;	/* Others may be of use. */
		else
			w->n_done++;
		if (ended_by && ended_by != SIGALRM)
			return EXIT_FAILED;
	}
	return status;
}
