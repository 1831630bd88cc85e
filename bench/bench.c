/* SPDX-License-Identifier: BSD-3-Clause */

/* Options, repetitions and the machine: see bench.h. */

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/bench.h"

#define NOISE_DEFAULT 0.15
#define TRIES_PER_REP 2

static cpu_set_t cpus_at_start;

/* Where notes go: a process is one benchmark. */
static const struct bench *noted_by;

void bench_die(const char *what, int err)
{
	fflush(stdout);
	fprintf(stderr, "%s: %s\n", what, strerror(err));
	exit(1);
}

void bench_note(const char *fmt, ...)
{
	FILE *out = NULL;
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	printf("note: %s\n", text);
	if (noted_by && noted_by->json_path)
		out = fopen(noted_by->json_path, "ae");
	if (!out)
		return;
	bench_json_note(out, noted_by->name, text);
	fclose(out);
}

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

uint64_t bench_wall_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

uint64_t bench_thread_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t bench_process_ns(void)
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

double bench_cpu_ns(pid_t pid)
{
	struct timespec t = { 0 };
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t))
		return NAN;
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

uint16_t bench_free_port(void)
{
	struct sockaddr_in at = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, len) ||
	    getsockname(fd, (struct sockaddr *)&at, &len))
		bench_die("a free port", errno);
	close(fd);
	return ntohs(at.sin_port);
}

unsigned int bench_cpus(void)
{
	return (unsigned int)CPU_COUNT(&cpus_at_start);
}

/* Some servers forget a signal that comes while they begin: so did a qemu-nbd. */
void bench_end(pid_t pid)
{
	const struct timespec pause = { .tv_nsec = 5000000 };

	for (int i = 0; i < 1000; i++) {
		if (i % 200 == 0)
			kill(pid, SIGTERM);
		if (waitpid(pid, NULL, WNOHANG))
			return;
		nanosleep(&pause, NULL);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

bool bench_pin(unsigned int k)
{
	cpu_set_t one;

	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &cpus_at_start) || k--)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		return !sched_setaffinity(0, sizeof(one), &one);
	}
	return false;
}

void bench_unpin(void)
{
	sched_setaffinity(0, sizeof(cpus_at_start), &cpus_at_start);
}

unsigned int bench_need_fds(unsigned int n)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim))
		return 1024;
	if (lim.rlim_cur < n) {
		struct rlimit more = lim;

		more.rlim_cur = n;
		if (more.rlim_max < n)
			more.rlim_max = n;
		if (setrlimit(RLIMIT_NOFILE, &more)) {
			more.rlim_cur = more.rlim_max = lim.rlim_max;
			setrlimit(RLIMIT_NOFILE, &more);
		}
		getrlimit(RLIMIT_NOFILE, &lim);
	}
	return lim.rlim_cur < n ? (unsigned int)lim.rlim_cur : n;
}

static double rusage_seconds(int who)
{
	struct rusage ru;

	getrusage(who, &ru);
	return (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) +
	       (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e6;
}

/* CPU time of everybody.  Counted in ticks, so good for long spans only. */
static double machine_seconds(void)
{
	unsigned long long t[8] = { 0 };
	FILE *f = fopen("/proc/stat", "r");
	int n;

	if (!f)
		return 0;
	n = fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0],
		   &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]);
	fclose(f);
	if (n < 7)
		return 0;
	/* user, nice, system, irq, softirq, stolen; not idle, not iowait */
	return (double)(t[0] + t[1] + t[2] + t[5] + t[6] + t[7]) /
	       (double)sysconf(_SC_CLK_TCK);
}

static struct bench_load load_now(const struct bench *b)
{
	return (struct bench_load){
		.all = machine_seconds(),
		.own = rusage_seconds(RUSAGE_SELF) +
		       rusage_seconds(RUSAGE_CHILDREN) + b->foreign_own,
		.wall = (double)bench_wall_ns() / 1e9,
	};
}

void bench_own_cpu(struct bench *b, double seconds)
{
	b->foreign_own += seconds;
}

static void usage(const char *name)
{
	printf("Usage: bench-%s [options]\n\n"
	       "  --reps N       repetitions (more may be made if others are busy)\n"
	       "  --quick        small and short: to see whether it runs\n"
	       "  --json FILE    append a line of JSON for each figure\n"
	       "  --only TEXT    only the variants whose name contains TEXT\n"
	       "  --backend B    uring, ev or uring,ev   (where it has them)\n"
	       "  --size LIST    bytes of a move: 4K,1M  (likewise)\n"
	       "  --depth LIST   how many in flight      (likewise)\n"
	       "  --cores LIST   how many cores          (likewise)\n"
	       "  --endings N    endings of each kind    (likewise)\n"
	       "  --dir DIR      where to make files (default: .)\n"
	       "  --noise X      repeat while others use more than X CPUs (%.2f)\n"
	       "  --limit S      begin no repetition later than S seconds\n",
	       name, NOISE_DEFAULT);
}

static const struct option options[] = {
	{ "reps", required_argument, NULL, 'r' },
	{ "quick", no_argument, NULL, 'q' },
	{ "json", required_argument, NULL, 'j' },
	{ "only", required_argument, NULL, 'o' },
	{ "backend", required_argument, NULL, 'b' },
	{ "size", required_argument, NULL, 's' },
	{ "depth", required_argument, NULL, 'D' },
	{ "cores", required_argument, NULL, 'c' },
	{ "endings", required_argument, NULL, 'e' },
	{ "dir", required_argument, NULL, 'd' },
	{ "noise", required_argument, NULL, 'n' },
	{ "limit", required_argument, NULL, 'l' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static void take_option(struct bench *b, int opt)
{
	switch (opt) {
	case 'r':
		b->reps = bench_count("reps", optarg, BENCH_SAMPLES_MAX);
		break;
	case 'q':
		b->quick = true;
		break;
	case 'j':
		b->json_path = optarg;
		break;
	case 'o':
		b->only = optarg;
		break;
	case 'b':
		bench_choose(b, BENCH_BACKENDS, optarg);
		break;
	case 's':
		bench_choose(b, BENCH_SIZES, optarg);
		break;
	case 'D':
		bench_choose(b, BENCH_DEPTHS, optarg);
		break;
	case 'c':
		bench_choose(b, BENCH_CORES, optarg);
		break;
	case 'e':
		bench_choose(b, BENCH_ENDINGS, optarg);
		break;
	case 'd':
		b->dir = optarg;
		break;
	case 'n':
		b->noise_max = bench_number("noise", optarg, 1e6);
		break;
	case 'l':
		b->limit = bench_number("limit", optarg, 1e6);
		break;
	case 'h':
		usage(b->name);
		exit(0);
	default:
		usage(b->name);
		exit(2);
	}
}

void bench_init(struct bench *b, const char *name, int argc, char **argv)
{
	bench_init_with(b, name, 0, argc, argv);
}

void bench_init_with(struct bench *b, const char *name, unsigned int takes,
		     int argc, char **argv)
{
	int opt;

	memset(b, 0, sizeof(*b));
	b->name = name;
	b->takes = takes;
	b->dir = ".";
	b->noise_max = NOISE_DEFAULT;
	while ((opt = getopt_long(argc, argv, "", options, NULL)) >= 0)
		take_option(b, opt);
	if (!b->reps)
		b->reps = b->quick ? 1 : 5;
	noted_by = b;
	CPU_ZERO(&cpus_at_start);
	sched_getaffinity(0, sizeof(cpus_at_start), &cpus_at_start);
	setvbuf(stdout, NULL, _IOLBF, 0);
}

bool bench_wants(const struct bench *b, const char *variant)
{
	return !b->only || strstr(variant, b->only);
}

static struct bench_hist *hist_new(void)
{
	struct bench_hist *h = calloc(1, sizeof(*h));

	if (!h)
		bench_die("a histogram", ENOMEM);
	return h;
}

struct bench_hist *bench_latency(struct bench *b, const char *what,
				 const char *variant)
{
	struct bench_latency *l;

	for (l = b->latencies; l < b->latencies + b->n_latencies; l++)
		if (!strcmp(l->what, what) && !strcmp(l->variant, variant))
			return l->now;
	if (b->n_latencies == BENCH_LATENCIES_MAX)
		bench_die("latencies", ENOSPC);
	b->n_latencies++;
	snprintf(l->what, sizeof(l->what), "%s", what);
	snprintf(l->variant, sizeof(l->variant), "%s", variant);
	l->now = hist_new();
	l->kept = hist_new();
	return l->now;
}

void bench_begin(struct bench *b)
{
	b->rep = 0;
	b->tries = 0;
	b->in_rep = false;
	b->begun = (double)bench_wall_ns() / 1e9;
}

static bool is_late(const struct bench *b)
{
	return b->limit > 0 &&
	       (double)bench_wall_ns() / 1e9 - b->begun > b->limit;
}

/* Keep the samples of this repetition, or take them back. */
static void end_rep(struct bench *b)
{
	struct bench_load now = load_now(b);
	double wall = now.wall - b->at.wall;
	double others = now.all - b->at.all - (now.own - b->at.own);
	bool noisy;

	if (others < 0)
		others = 0;
	/* Below half a second the ticks say nothing. */
	noisy = wall > 0.5 && others / wall > b->noise_max;
	b->tries++;
	if (noisy && !b->quick && !is_late(b) &&
	    b->tries - b->rep <= b->reps * (TRIES_PER_REP - 1)) {
		for (int i = 0; i < b->n_figures; i++)
			b->figures[i].n = b->figures[i].n_kept;
		for (int i = 0; i < b->n_latencies; i++)
			*b->latencies[i].now = *b->latencies[i].kept;
		return;
	}
	for (int i = 0; i < b->n_figures; i++)
		b->figures[i].n_kept = b->figures[i].n;
	for (int i = 0; i < b->n_latencies; i++)
		*b->latencies[i].kept = *b->latencies[i].now;
	b->n_noisy += noisy;
	b->noise_sum += others;
	b->wall_sum += wall;
	b->rep++;
}

bool bench_next(struct bench *b)
{
	if (b->in_rep)
		end_rep(b);
	b->in_rep = b->rep < b->reps && (!b->rep || !is_late(b));
	b->at = load_now(b);
	return b->in_rep;
}
