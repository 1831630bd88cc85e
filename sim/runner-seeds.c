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

#include "sim/runner.h"

#define BROKEN 70		/* How a child ends that found a violation. */
#define SHARE_MAX 256		/* Seeds of a child. */
#define JOBS_MAX 64

static struct outcome *mine;	/* In a child. */
static const struct weir_sim_trial *now_trial;

void weir_sim_violation(const char *rule, const char *fmt, ...)
{
	struct weir_sim_stats stats = { .size = sizeof(stats) };
	va_list ap;

	va_start(ap, fmt);
	if (!mine) {
		fprintf(stderr, "'%s' does not hold: ", rule);
		vfprintf(stderr, fmt, ap);
		fputs("\n", stderr);
		abort();
	}
	snprintf(mine->rule, sizeof(mine->rule), "%s", rule);
	vsnprintf(mine->text, sizeof(mine->text), fmt, ap);
	va_end(ap);
	if (now_trial->sim && !weir_sim_stats(now_trial->sim, &stats)) {
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

static void add_stats(struct outcome *out, const struct weir_sim_trial *trial)
{
	struct weir_sim_stats stats = { .size = sizeof(stats) };

	if (weir_sim_stats(trial->sim, &stats))
		return;
	out->completions += stats.completions;
	out->events += stats.events;
	out->verified += trial->verified;
	for (unsigned int i = 0; i < WEIR_SIM_FAULTS; i++)
		out->faults[i] += stats.faults[i];
	out->digest += weir_sim_digest(trial->sim) * (2 * trial->seed + 1);
}

/* In a child: one seed. */
static void run_one(const struct params *p, struct weir_sim_trial *trial,
		    struct outcome *out, bool trace)
{
	struct weir_sim_opts opts = {
		.size = sizeof(opts),
		.faults = p->faults,
		.rate = p->rate,
		.flags = p->steady ? 0 : WEIR_SIM_SWARM,
		.faults_max = p->faults_max,
		.trace = trace ? trace_line : NULL,
		.faulty_hosts = *p->hosts ? p->hosts : NULL,
	};

	mine = out;
	now_trial = trial;
	if (weir_sim_create(&trial->sim, trial->seed, &opts))
		weir_sim_violation("no world", "%s", weir_why());
	p->scenario->run(trial);
	add_stats(out, trial);
	if (weir_sim_destroy(trial->sim))
		weir_sim_violation("nothing is left", "%s", weir_why());
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
		struct weir_sim_trial trial = {
			.size = sizeof(trial),
			.arg = params->scenario->arg,
			.seed = params->seed + i,
			.faults = params->faults,
			.ops = params->ops,
		};

		out->seed = trial.seed;
		run_one(params, &trial, out, trace);
		out->seeds++;
	}
	exit(EXIT_SUCCESS);
}

struct share {
	pid_t pid;
	int pidfd;
	int timeout_ms;
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
	s->timeout_ms = params->timeout_ms;
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

	while (s->pidfd >= 0 && poll(&p, 1, s->timeout_ms) == 0) {
		s->hangs = s->out->seeds == s->seen;
		if (s->hangs)
			kill(s->pid, SIGKILL);
		s->seen = s->out->seeds;
	}
	while (waitpid(s->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (s->pidfd >= 0)
		close(s->pidfd);
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS)
		return true;
	tell_death(s, status);
	return false;
}

static struct outcome *shared(void)
{
	void *p = mmap(NULL, sizeof(struct outcome), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		fprintf(stderr, "%s: no memory\n", runner_name);
		exit(EXIT_FAILURE);
	}
	return p;
}

bool runner_seeds(const struct params *params, uint64_t n, unsigned int jobs,
		  bool trace, struct outcome *ret)
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
			if (start_share(&shares[running], &part, share, trace))
				break;
			part.seed += share;
			n -= share;
		}
		for (j = 0; j < running; j++) {
			well = end_share(&shares[j]) && well;
			outcome_add(ret, shares[j].out);
		}
		if (!running)
			snprintf(ret->rule, sizeof(ret->rule), "no process");
		well = well && running;
	}
	for (j = 0; j < jobs; j++)
		munmap(shares[j].out, sizeof(struct outcome));
	return well;
}

/*
 * Smaller failures: the kinds of faults that are needed, the first n faults, and
 * the fewest operations.  A failure of another rule is not the same failure.
 */

static bool still_fails(const struct params *params, struct outcome *found)
{
	struct outcome out;

	if (runner_seeds(params, 1, 1, false, &out) ||
	    strcmp(out.rule, found->rule))
		return false;
	*found = out;
	return true;
}

/* Each kind of fault has its own stream, so the others are unchanged. */
static bool drop_kinds(struct params *p, struct outcome *found)
{
	bool did = false;
	struct params with;

	for (unsigned int i = 0; i < WEIR_SIM_FAULTS; i++) {
		with = *p;
		with.faults &= ~(UINT64_C(1) << i);
		if (with.faults == p->faults || !still_fails(&with, found))
			continue;
		*p = with;
		did = true;
	}
	return did;
}

/* @list without the word at @at, of @len bytes. */
static void drop_word(char *ret, size_t size, const char *list, size_t at,
		      size_t len)
{
	bool last = !list[at + len];

	if (last && at)
		snprintf(ret, size, "%.*s", (int)at - 1, list);
	else
		snprintf(ret, size, "%.*s%s", (int)at, list,
			 last ? "" : list + at + len + 1);
}

/* One faulty host is left at least: without any there are no faults. */
static bool drop_hosts(struct params *p, struct outcome *found)
{
	const char *all = p->scenario->hosts ? p->scenario->hosts : "";
	struct params with = *p;
	bool did = false;
	size_t at = 0, len;

	if (!p->faults)
		return false;
	snprintf(p->hosts, sizeof(p->hosts), "%s", *p->hosts ? with.hosts :
									all);
	while (p->hosts[at] && strchr(p->hosts, ',')) {
		len = strcspn(p->hosts + at, ",");
		with = *p;
		drop_word(with.hosts, sizeof(with.hosts), p->hosts, at, len);
		if (still_fails(&with, found)) {
			*p = with;
			did = true;
			continue;
		}
		at += len + (p->hosts[at + len] == ',');
	}
	return did;
}

/* The least @*member in [@low, it] that fails, as far as bisection finds it. */
static bool halve(struct params *p, struct outcome *found, uint64_t low,
		  uint64_t high, void (*set)(struct params *p, uint64_t n))
{
	struct params with = *p;
	bool did = false;
	uint64_t mid;

	while (low < high) {
		mid = low + (high - low) / 2;
		set(&with, mid);
		if (still_fails(&with, found)) {
			*p = with;
			high = mid;
			did = true;
		} else {
			low = mid + 1;
		}
	}
	return did;
}

static void set_faults_max(struct params *p, uint64_t n)
{
	p->faults_max = n;
}

static void set_ops(struct params *p, uint64_t n)
{
	p->ops = (uint32_t)n;
}

static bool fewer_faults(struct params *p, struct outcome *found)
{
	uint64_t high = p->faults_max;

	if (!p->faults)
		return false;
	/* A failed child has not reported how many there were. */
	if (!high)
		high = outcome_faults(found) ? outcome_faults(found) : 1u << 20;
	return halve(p, found, 1, high, set_faults_max);
}

bool runner_shrink(struct params *params, struct outcome *found, bool quiet)
{
	char line[512];
	bool did;

	if (!still_fails(params, found))
		return false;
	if (!strcmp(found->rule, "hang"))
		return true;	/* Each try would take as long. */
	do {
		did = drop_hosts(params, found);
		did = drop_kinds(params, found) || did;
		did = halve(params, found, 1, params->ops, set_ops) || did;
		did = fewer_faults(params, found) || did;
		params_print(line, sizeof(line), params);
		if (!quiet && did)
			fprintf(stderr, "%s: smaller: %s\n", runner_name,
				line);
	} while (did);
	return true;
}
