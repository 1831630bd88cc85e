/* SPDX-License-Identifier: CC0-1.0 */
/* The life of a copy: make the objects, run the loop, say how it went. */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <weir/watch.h>

#include "weir-cp.h"

/* Exit status; the manual page has them too. */
#define EXIT_OK 0
#define EXIT_SOME 1	/* Something was not copied. */
#define EXIT_USAGE 2
#define EXIT_SETUP 3	/* The machine did not give what it takes. */

static const int signals[] = { SIGINT, SIGTERM, SIGHUP };

void cp_busy(struct cp *cp)
{
	cp->busy++;
}

void cp_idle(struct cp *cp)
{
	cp->busy--;
	cp_check_end(cp);
}

/* With nothing in flight and nothing to come, end the flows, then the loop. */
void cp_check_end(struct cp *cp)
{
	if (cp->busy > 0)
		return;
	if (!cp->ending) {
		cp->ending = true;
		flows_end(cp);
	}
	if (cp->flows_open == 0)
		weir_reactor_break(cp->reactor);
}

/* Begin nothing new, and undo what is not complete. */
void cp_stop(struct cp *cp)
{
	if (cp->ending)
		return;
	cp->ending = true;
	atomic_store(&cp->stop, true);
	files_stop(cp);
	flows_cancel(cp);
	walk_pump(cp);
}

static void on_signal(struct weir_signal *signal,
		      const struct signalfd_siginfo *info, void *arg)
{
	struct cp *cp = arg;

	(void)signal;
	if (!cp->signo)
		cp->signo = (int)info->ssi_signo;
	cp_stop(cp);
}

/* One that was to be ignored, by nohup say, stays so. */
static int watch_signals(struct cp *cp)
{
	for (int i = 0; i < 3; i++) {
		struct sigaction was;
		int err;

		sigaction(signals[i], NULL, &was);
		if (was.sa_handler == SIG_IGN)
			continue;
		err = weir_signal_create(&cp->signals[i], cp->reactor,
					 signals[i], on_signal, cp);
		if (err)
			return err;
	}
	return 0;
}

/*
 * Descriptors.  A worker has the directories of its file open and those of
 * another (a hard link's), each with its parent while it is being opened; what
 * is left is for files and for directories that stay open.
 */
#define FDS_OF_WORKER 8
#define FDS_OF_REACTOR 24	/* Until they can be counted. */
#define FDS_SPARE 6		/* Counting for the progress. */

static uint32_t fds_allowed(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) || lim.rlim_cur > 65536)
		return 65536;
	return (uint32_t)lim.rlim_cur;
}

static uint32_t fds_open(void)
{
	DIR *d = opendir("/proc/self/fd");
	uint32_t n = 0;

	if (!d)
		return FDS_OF_REACTOR;
	while (readdir(d))
		n++;
	closedir(d);
	return n > 3 ? n - 3 : 0;	/* "." and "..", and its own. */
}

static uint32_t minus(uint32_t a, uint32_t b)
{
	return a > b ? a - b : 0;
}

static uint32_t worker_count(void)
{
	uint32_t fds = minus(fds_allowed(), fds_open() + FDS_OF_REACTOR);
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	/* More than there are processors: some will wait for the disk. */
	uint32_t n = cpus < 2 ? 4 : cpus > 16 ? 32 : (uint32_t)cpus * 2;

	if (n > fds / (2 * FDS_OF_WORKER))
		n = fds / (2 * FDS_OF_WORKER);
	return n ? n : 1;
}

static void share_descriptors(struct cp *cp, uint32_t workers)
{
	uint32_t per_file = cp->opts.direct ? 4 : 2;
	uint32_t fds = minus(fds_allowed(), fds_open() + FDS_SPARE +
					    workers * FDS_OF_WORKER);
	uint32_t dirs = fds / 8, files;

	if (dirs > DIRS_OPEN_MAX)
		dirs = DIRS_OPEN_MAX;
	files = (fds - 2 * dirs) / per_file;
	cp->dirs.idle_max = dirs;
	cp->files_max = !files ? 1 : files > FILES_MAX ? FILES_MAX : files;
}

static int setup(struct cp *cp)
{
	struct weir_reactor_opts ro = {
		.size = sizeof(ro),
		.backend = cp->opts.backend,
		.workers = worker_count(),
	};
	int err = weir_reactor_create(&cp->reactor, &ro);

	if (err)
		return err;
	err = watch_signals(cp);
	if (!err)
		share_descriptors(cp, ro.workers);
	if (!err)
		err = weir_dma_create(&cp->dma, cp->reactor, NULL);
	if (!err)
		err = weir_dma_start(cp->dma);
	if (!err)
		err = files_create(cp);
	if (!err)
		err = walk_create(cp);
	if (!err)
		err = links_create(cp);
	return err;
}

static void teardown(struct cp *cp)
{
	progress_stop(cp);
	links_destroy(cp);
	if (cp->walk)
		free(cp->walk->again);
	free(cp->walk);
	free(cp->files);
	if (cp->reactor)
		flows_destroy(cp);
	weir_dma_destroy(cp->dma);
	weir_xts_destroy(cp->xts);
	for (int i = 0; i < 3; i++)
		weir_signal_destroy(cp->signals[i]);
	if (weir_reactor_destroy(cp->reactor))
		fprintf(stderr, "weir-cp: %s\n", weir_why());
	dirs_fini(&cp->dirs);
}

static void run(struct cp *cp)
{
	int err;

	cp->started_ns = weir_reactor_now(cp->reactor);
	progress_start(cp);
	cp_busy(cp);
	walk_pump(cp);
	cp_idle(cp);
	err = weir_reactor_run(cp->reactor);
	if (err < 0)
		say_error(cp, weir_why(), cp->opts.sources[0], 0);
	progress_clear(cp);
}

/* Die of the signal, so that the parent process knows. */
static void die_of(int signo)
{
	sigset_t set;

	signal(signo, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, signo);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(signo);
}

/* A full disk is an error, not a signal. */
static void prepare_process(struct cp *cp)
{
	struct rlimit lim;

	cp->umask = umask(0);
	umask(cp->umask);
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	if (getrlimit(RLIMIT_NOFILE, &lim) == 0 && lim.rlim_cur < 4096) {
		lim.rlim_cur = lim.rlim_max < 4096 ? lim.rlim_max : 4096;
		setrlimit(RLIMIT_NOFILE, &lim);
	}
	cp->uid = geteuid();
	cp->gid = getegid();
	cp->root = cp->uid == 0;
	dirs_init(&cp->dirs);
}

int main(int argc, char **argv)
{
	struct cp cp = { .root = false };
	int status = options_parse(&cp.opts, argc, argv);

	if (status >= 0)
		return status;
	prepare_process(&cp);
	if (convert_setup(&cp)) {
		teardown(&cp);
		return EXIT_SETUP;
	}
	if (setup(&cp)) {
		fprintf(stderr, "weir-cp: %s\n", weir_why());
		teardown(&cp);
		return EXIT_SETUP;
	}
	if (target_check(&cp) == 0) {
		run(&cp);
		say_summary(&cp);
	}
	teardown(&cp);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "weir-cp: write the output: %s\n",
			strerror(errno));
		cp.n_errors++;
	}
	if (cp.signo)
		die_of(cp.signo);
	return cp.n_errors ? EXIT_SOME : EXIT_OK;
}
