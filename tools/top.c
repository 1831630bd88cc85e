/* SPDX-License-Identifier: BSD-3-Clause */

/* weir top: what processes that use weir do. */

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tool.h"
#include "top.h"

#define PROCESSES_MAX 64	/* In one answer for Prometheus. */
#define WANT_NS (10 * WEIR_SEC)	/* After the last look. */
#define WANT_MAX (3600 * WEIR_SEC)
#define SCRAPE_NS (300 * WEIR_SEC)

enum { OPT_JSON = 256, OPT_PROMETHEUS, OPT_ONCE, OPT_HELP };

static const struct option options[] = {
	{ "count", required_argument, NULL, 'n' },
	{ "interval", required_argument, NULL, 'i' },
	{ "once", no_argument, NULL, OPT_ONCE },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "prometheus", no_argument, NULL, OPT_PROMETHEUS },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

struct asked {
	bool json, prometheus, help, timed;
	uint64_t count;		/* 0: until the user has enough. */
	uint64_t interval_ns;
	int64_t pid;		/* 0: none. */
};

static void help(void)
{
	puts("Usage: weir top [--interval S] [--count N] [--json] PID\n"
	     "       weir top --prometheus [PID]\n"
	     "       weir top\n"
	     "\n"
	     "Show what the reactors of a process do, with the latencies of\n"
	     "their operations, pools, engines and mailboxes, without stopping\n"
	     "it.  It must have been started with WEIR_STATS=1, or =offer: then\n"
	     "it measures while it is looked at; or publish itself.  Without\n"
	     "PID, list the processes that do.\n"
	     "\n"
	     "  -i, --interval S  seconds between two looks (1)\n"
	     "  -n, --count N     so many looks; to a terminal without end, else\n"
	     "                    one, or without end if there is an interval\n"
	     "      --once        one look, as text\n"
	     "      --json        one JSON object for each look\n"
	     "      --prometheus  one look, in Prometheus' text format; without\n"
	     "                    PID, of all processes\n"
	     "      --help        this text\n"
	     "\n"
	     "Keys: q quit, arrows and page keys move, space stops the clock.\n"
	     "\n"
	     "Examples:\n"
	     "  WEIR_STATS=1 weir-proxy '*:8080' 10.0.0.1:80 & weir top $!\n"
	     "  weir top --json --interval 10 4711 >>log\n"
	     "\n"
	     "Exit status: 0, 1 if there is nothing to see, 2 for a command\n"
	     "line that makes no sense.");
}

static int parse_interval(const char *text, struct asked *asked)
{
	char *end;
	double s = strtod(text, &end);

	if (end == text || *end || !(s >= 0.01 && s <= 86400))
		return usage_error("top: --interval %s makes no sense; give "
				   "seconds, 0.01 to 86400", text);
	asked->interval_ns = (uint64_t)(s * 1e9);
	asked->timed = true;
	return 0;
}

static int parse_number(const char *text, uint64_t max, uint64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoull(text, &end, 10);
	return *text < '0' || *text > '9' || *end || errno || !*ret ||
	       *ret > max ? -EINVAL : 0;
}

static int parse_option(int c, char **argv, struct asked *asked)
{
	switch (c) {
	case 'i':
		return parse_interval(optarg, asked);
	case 'n':
		if (parse_number(optarg, UINT32_MAX, &asked->count))
			return usage_error("top: --count %s makes no sense",
					   optarg);
		asked->timed = true;
		return 0;
	case OPT_ONCE:
		asked->count = 1;
		return 0;
	case OPT_JSON:
		asked->json = true;
		return 0;
	case OPT_PROMETHEUS:
		asked->prometheus = true;
		return 0;
	case OPT_HELP:
		asked->help = true;
		return 0;
	default:
		return usage_error("top: there is no option '%s', or its value "
				   "is missing or too much; weir top --help "
				   "lists them", argv[optind - 1]);
	}
}

/* 0, or an exit status. */
static int parse(int argc, char **argv, struct asked *asked)
{
	uint64_t pid = 0;
	int c, status = 0;

	opterr = 0;
	while (!status &&
	       (c = getopt_long(argc, argv, "i:n:", options, NULL)) != -1)
		status = parse_option(c, argv, asked);
	if (status || asked->help)
		return status;
	if (optind + 1 < argc)
		return usage_error("top: '%s' is too much; it takes one PID",
				   argv[optind + 1]);
	if (optind < argc && parse_number(argv[optind], INT32_MAX, &pid))
		return usage_error("top: '%s' is no PID; weir top lists those "
				   "there are", argv[optind]);
	if (asked->json && asked->prometheus)
		return usage_error("top: --json and --prometheus exclude each "
				   "other");
	asked->pid = (int64_t)pid;
	return 0;
}

struct pids {
	int64_t pid[PROCESSES_MAX];
	int n, left_out;
	bool quiet;
};

static int list_one(const struct weir_stats_info *info, void *arg)
{
	struct pids *pids = arg;

	if (!pids->quiet)
		printf("%8" PRId64 "  %-40.40s weir %s%s%s\n", info->pid,
		       info->program, info->version,
		       info->offered ? ", when looked at" : "",
		       info->foreign ? ", in another pid namespace" : "");
	if (info->foreign || pids->n == PROCESSES_MAX)
		pids->left_out++;
	else
		pids->pid[pids->n++] = info->pid;
	return 0;
}

static int list(void)
{
	struct pids pids = { .n = 0 };

	if (weir_stats_list(list_one, &pids))
		return failed("top: %s", weir_why());
	if (!pids.n && !pids.left_out)
		return failed("top: no process of yours publishes; start one "
			      "with WEIR_STATS=1 or =offer, or have it call "
			      "weir_stats_publish()");
	return EXIT_OK;
}

/* All processes; one that ends meanwhile is skipped. */
static int prometheus_all(void)
{
	static struct process all[PROCESSES_MAX];
	struct pids pids = { .quiet = true };
	int n = 0, i;

	if (weir_stats_list(list_one, &pids))
		return failed("top: %s", weir_why());
	for (i = 0; i < pids.n; i++)
		n += !weir_stats_open(&all[n].now, pids.pid[i]);
	processes_want(all, n, SCRAPE_NS);
	top_prometheus(all, n);
	if (pids.left_out)
		fprintf(stderr, "weir: top: %d processes are left out: those "
			"in another pid namespace, and all after the first "
			"%d\n", pids.left_out, PROCESSES_MAX);
	for (i = 0; i < n; i++)
		process_close(&all[i]);
	return EXIT_OK;
}

static void show(const struct process *p, const struct asked *asked)
{
	if (asked->json)
		top_json(p);
	else if (asked->prometheus)
		top_prometheus(p, 1);
	else
		top_text(stdout, p);
}

static void sleep_for(uint64_t ns)
{
	struct timespec ts = { .tv_sec = (time_t)(ns / WEIR_SEC),
			       .tv_nsec = (long)(ns % WEIR_SEC) };

	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
}

/* The reader has closed the pipe; main() reports it. */
static bool written(void)
{
	return !fflush(stdout) && !ferror(stdout);
}

static int look_again(struct process *p, const struct asked *asked)
{
	uint64_t n;
	int err;

	show(p, asked);
	for (n = 1; (!asked->count || n < asked->count) && written(); n++) {
		sleep_for(asked->interval_ns);
		err = process_look(p);
		if (err)
			return process_failed(p, err);
		if (!asked->json)
			putchar('\n');
		show(p, asked);
	}
	return EXIT_OK;
}

static int watch(const struct asked *asked)
{
	bool plain = asked->json || asked->prometheus || asked->count == 1;
	struct asked now = *asked;
	uint64_t want_ns = asked->prometheus ? SCRAPE_NS :
			   2 * asked->interval_ns > WANT_NS ?
				   2 * asked->interval_ns : WANT_NS;
	struct process p;
	int status = process_open(&p, asked->pid,
				  want_ns > WANT_MAX ? WANT_MAX : want_ns);

	if (status)
		return status;
	status = plain ? -1 : top_screen(&p, asked->interval_ns, asked->count);
	if (asked->prometheus || (!asked->timed && !isatty(STDOUT_FILENO)))
		now.count = 1;
	if (status < 0)
		status = look_again(&p, &now);
	process_close(&p);
	return status;
}

int cmd_top(int argc, char **argv)
{
	struct asked asked = { .interval_ns = WEIR_SEC };
	int status = parse(argc, argv, &asked);

	if (status)
		return status;
	if (asked.help) {
		help();
		return EXIT_OK;
	}
	if (asked.pid)
		return watch(&asked);
	if (asked.prometheus)
		return prometheus_all();
	if (asked.json)
		return usage_error("top: --json wants a PID");
	return list();
}
