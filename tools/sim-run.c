/* SPDX-License-Identifier: BSD-3-Clause */

/* Runs seeds in child processes.  A failure there is reported in shared memory,
 * or by the child's exit status. */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim.h"

#define BROKEN 70		/* How a child ends that found a violation. */
#define SHARE_MAX 256		/* Seeds of a child. */
#define JOBS_MAX 64

static struct outcome *mine;	/* In a child. */
static struct run *now_run;
static int timeout_ms = 30000;

void run_set_timeout(unsigned int seconds)
{
	timeout_ms = (int)seconds * 1000;
}

void violation(const char *rule, const char *fmt, ...)
{
	struct weir_sim_stats stats = { .size = sizeof(stats) };
	va_list ap;

	snprintf(mine->rule, sizeof(mine->rule), "%s", rule);
	va_start(ap, fmt);
	vsnprintf(mine->text, sizeof(mine->text), fmt, ap);
	va_end(ap);
	if (now_run->sim && !weir_sim_stats(now_run->sim, &stats)) {
		mine->at_event = stats.events;
		memcpy(mine->faults, stats.faults, sizeof(mine->faults));
	}
	fflush(stdout);
	_exit(BROKEN);
}

static void trace_line(const char *line, void *arg)
{
	(void)arg;
	puts(line);
}

static void add_stats(struct outcome *out, const struct run *run)
{
	struct weir_sim_stats stats = { .size = sizeof(stats) };

	if (weir_sim_stats(run->sim, &stats))
		return;
	out->completions += stats.completions;
	out->events += stats.events;
	out->verified += run->verified;
	for (unsigned int i = 0; i < WEIR_SIM_FAULTS; i++)
		out->faults[i] += stats.faults[i];
	out->digest += weir_sim_digest(run->sim) * (2 * run->params.seed + 1);
}

void run_one(struct run *run, struct outcome *out, bool trace)
{
	const struct params *p = &run->params;
	struct weir_sim_opts opts = {
		.size = sizeof(opts),
		.faults = p->faults,
		.rate = p->rate,
		.flags = p->steady ? 0 : WEIR_SIM_SWARM,
		.faults_max = p->faults_max,
		.trace = trace ? trace_line : NULL,
	};

	mine = out;
	now_run = run;
	if (weir_sim_create(&run->sim, p->seed, &opts))
		violation("no world", "%s", weir_why());
	p->scenario->run(run);
	add_stats(out, run);
	if (weir_sim_destroy(run->sim))
		violation("nothing is left", "%s", weir_why());
}

/* A killed run leaves no process and no core file: a crash is an ordinary
 * result. */
static void child_begin(pid_t parent)
{
	struct rlimit none = { 0, 0 };

	setrlimit(RLIMIT_CORE, &none);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(BROKEN);
}

static void child(const struct params *params, uint64_t n, bool trace,
		  struct outcome *out)
{
	if (trace)
		setvbuf(stdout, NULL, _IOLBF, 0);	/* All up to a crash. */
	for (uint64_t i = 0; i < n; i++) {
		struct run run = { .params = *params };

		run.params.seed += i;
		out->seed = run.params.seed;
		run_one(&run, out, trace);
		out->seeds++;
	}
	exit(EXIT_OK);
}

struct share {
	pid_t pid;
	int pidfd;
	bool hangs;
	uint64_t seen;		/* Of seeds, when it was last looked at. */
	struct outcome *out;
};

static int start_share(struct share *s, const struct params *params, uint64_t n,
		       bool trace)
{
	pid_t parent = getpid();

	fflush(stdout);
	fflush(stderr);
	memset(s->out, 0, sizeof(*s->out));
	s->out->seed = params->seed;
	s->seen = 0;
	s->hangs = false;
	s->pid = fork();
	if (s->pid < 0)
		return -errno;
	if (!s->pid) {
		child_begin(parent);
		child(params, n, trace, s->out);
	}
	s->pidfd = (int)syscall(SYS_pidfd_open, s->pid, 0);
	return 0;
}

static void tell_death(const struct share *s, int status)
{
	struct outcome *out = s->out;

	if (*out->rule)
		return;
	if (s->hangs)
		snprintf(out->rule, sizeof(out->rule), "hang");
	else if (WIFSIGNALED(status))
		snprintf(out->rule, sizeof(out->rule), "killed by signal %d",
			 WTERMSIG(status));
	else
		snprintf(out->rule, sizeof(out->rule), "exit status %d",
			 WEXITSTATUS(status));
	snprintf(out->text, sizeof(out->text),
		 "the process ended in the middle; standard error may say why");
}

/* Wait until it ends; kill it if it makes no progress for long. */
static bool end_share(struct share *s)
{
	struct pollfd p = { .fd = s->pidfd, .events = POLLIN };
	int status = 0;

	while (s->pidfd >= 0 && poll(&p, 1, timeout_ms) == 0) {
		s->hangs = s->out->seeds == s->seen;
		if (s->hangs)
			kill(s->pid, SIGKILL);
		s->seen = s->out->seeds;
	}
	while (waitpid(s->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (s->pidfd >= 0)
		close(s->pidfd);
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_OK)
		return true;
	tell_death(s, status);
	return false;
}

static struct outcome *shared(void)
{
	void *p = mmap(NULL, sizeof(struct outcome), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		fprintf(stderr, "weir-sim: no memory\n");
		exit(EXIT_FAILED);
	}
	return p;
}

bool run_seeds(const struct params *params, uint64_t n, bool trace,
	       struct outcome *ret)
{
	struct share s = { .out = shared() };
	bool well = false;

	if (start_share(&s, params, n, trace))
		snprintf(s.out->rule, sizeof(s.out->rule), "no process");
	else
		well = end_share(&s);
	*ret = *s.out;
	munmap(s.out, sizeof(*s.out));
	return well;
}

void outcome_add(struct outcome *sum, const struct outcome *out)
{
	sum->seeds += out->seeds;
	sum->completions += out->completions;
	sum->events += out->events;
	sum->verified += out->verified;
	sum->digest += out->digest;
	for (unsigned int i = 0; i < WEIR_SIM_FAULTS; i++)
		sum->faults[i] += out->faults[i];
	if (!*sum->rule && *out->rule) {
		sum->seed = out->seed;
		sum->at_event = out->at_event;
		memcpy(sum->rule, out->rule, sizeof(sum->rule));
		memcpy(sum->text, out->text, sizeof(sum->text));
	}
}

uint64_t outcome_faults(const struct outcome *out)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < WEIR_SIM_FAULTS; i++)
		n += out->faults[i];
	return n;
}

bool run_many(const struct params *params, uint64_t n, unsigned int jobs,
	      struct outcome *ret)
{
	struct share shares[JOBS_MAX];
	struct params part = *params;
	bool well = true;
	unsigned int j, running;
	uint64_t share;

	memset(ret, 0, sizeof(*ret));
	if (jobs > JOBS_MAX)
		jobs = JOBS_MAX;
	for (j = 0; j < jobs; j++)
		shares[j].out = shared();
	while (n && well) {
		share = (n + jobs - 1) / jobs;
		if (share > SHARE_MAX)
			share = SHARE_MAX;
		for (running = 0; running < jobs && n; running++) {
			if (share > n)
				share = n;
			if (start_share(&shares[running], &part, share, false))
				break;
			part.seed += share;
			n -= share;
		}
		for (j = 0; j < running; j++) {
			well = end_share(&shares[j]) && well;
			outcome_add(ret, shares[j].out);
		}
		well = well && running;
	}
	for (j = 0; j < jobs; j++)
		munmap(shares[j].out, sizeof(struct outcome));
	return well;
}
