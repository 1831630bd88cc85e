/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Proxies: weir-proxy beside haproxy, nginx and socat.  proxy-peers.py starts
 * each, and wrk, iperf3 and idle clients in front of it; this has them take
 * turns, and reads what it says.
 *
 *	requests  of many connections to an nginx behind, which answers at once
 *	bulk      two streams; also by few large copies, of 1 MiB
 *	idle      the proxy's memory for a connection that says nothing
 */

#include <errno.h>
#include <libgen.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench.h"

#define COLUMNS 3
#define CONNS 64	/* Clients, unless an option says. */
#define LIMITS 2.5	/* wrk and iperf3 count in seconds: time for five. */
#define IDLE_MAX 10000
#define CONNS_MAX 5000	/* That ask at a time. */
#define FDS_OTHER 100	/* Of a proxy, besides two for each that is idle. */

/* Their names here, and there. */
static const struct proxy {
	const char *name, *asked;
	bool is_ours, is_for_bulk;
} proxies[] = {
	{ "haproxy", "haproxy", false, false },
	{ "haproxy splice", "haproxy_splice", false, false },
	{ "nginx", "nginx", false, false },
	{ "nginx 1 MiB", "nginx_large", false, true },
	{ "socat", "socat", false, false },
	{ "weir-proxy", "weir", true, false },
	{ "weir-proxy 1 MiB", "weir_large", true, true },
};

/* What is measured, and what the columns of its line are. */
static struct task {
	const char *asked;
	int n;			/* Seconds, or connections. */
	const char *form;
	struct {
		const char *what, *unit;
	} column[COLUMNS];
} tasks[] = {
	{ "requests", 1,
	  "%*s %*s %lf requests/s p99 %lf ms %lf us of CPU",
	  { { "requests", "req/s" }, { "requests, p99", "ms" },
	    { "requests, CPU", "us/req" } } },
	{ "bulk", 1, "%*s %*s %lf GB/s %lf s of CPU",
	  { { "bulk", "GB/s" }, { "bulk, CPU", "s/GB" }, { NULL, NULL } } },
	{ "idle", IDLE_MAX, "%*s %*s %lf KiB",
	  { { "idle, memory", "KiB each" }, { NULL, NULL }, { NULL, NULL } } },
};

/* The script is beside this program, or where the environment says. */
static void find_script(void)
{
	char path[4096], script[4200];
	ssize_t len;

	if (getenv("WEIR_PROXY_PEERS"))
		return;
	len = readlink("/proc/self/exe", path, sizeof(path) - 1);
	if (len < 0)
		bench_die("/proc/self/exe", errno);
	path[len] = '\0';
	snprintf(script, sizeof(script), "%s/proxy-peers.py", dirname(path));
	setenv("WEIR_PROXY_PEERS", script, 1);
}

static const char *name_case(const char *what, int conns)
{
	static char text[64];

	if (!conns)
		return what;
	snprintf(text, sizeof(text), "%s, %d connections", what, conns);
	return text;
}

static void add_line(struct bench *b, const struct task *t, int conns,
		     const char *name, const char *line)
{
	double v[COLUMNS] = { NAN, NAN, NAN };

	if (sscanf(line, t->form, &v[0], &v[1], &v[2]) < 1)
		return;
	for (int i = 0; i < COLUMNS && t->column[i].what; i++)
		bench_add(b, name_case(t->column[i].what, conns), name,
			  t->column[i].unit, v[i]);
}

/* It says nothing of a proxy that is not there. */
static void run(struct bench *b, const struct task *t, int conns,
		const struct proxy *p)
{
	char command[256], line[256];
	FILE *f;

	if (!bench_wants(b, p->name) || (b->quick && !p->is_ours) ||
	    (p->is_for_bulk && t != &tasks[1]))
		return;
	snprintf(command, sizeof(command),
		 "exec python3 \"$WEIR_PROXY_PEERS\" %s --%s %d --only %s "
		 "--connections %d --weir \"$WEIR_PROXY\"", t->asked,
		 t == &tasks[2] ? "idle" : "seconds", t->n, p->asked, conns);
	f = popen(command, "r");
	if (!f)
		bench_die("popen", errno);
	while (fgets(line, sizeof(line), f))
		add_line(b, t, conns, p->name, line);
	if (pclose(f))
		bench_note("%s: %s could not be measured", p->name, t->asked);
}

/* @conns is 0 where a task has a number of its own. */
static void measure(struct bench *b, const struct task *t, int conns)
{
	for (bench_begin(b); bench_next(b); )
		for (size_t i = 0; i < ARRAY_SIZE(proxies); i++)
			run(b, t, conns, &proxies[i]);
}

static void measure_requests(struct bench *b)
{
	for (int i = 0; i < b->depths.n; i++) {
		if (b->depths.value[i] > CONNS_MAX)
			bench_die("--depth", E2BIG);
		measure(b, &tasks[0], (int)b->depths.value[i]);
	}
}

static void goals(struct bench *b)
{
	const struct proxy *p;

	for (p = proxies; p < proxies + ARRAY_SIZE(proxies); p++) {
		if (p->is_ours)
			continue;
		bench_goal(b, "throughput: at least the best proxy's", "bulk",
			   "weir-proxy 1 MiB", p->name, BENCH_AT_LEAST, 1);
		if (p->is_for_bulk)
			continue;
		bench_goal(b, "requests: at least the best proxy's",
			   name_case("requests", CONNS), "weir-proxy", p->name,
			   BENCH_AT_LEAST, 1);
		bench_goal(b, "requests: p99 no worse",
			   name_case("requests, p99", CONNS), "weir-proxy",
			   p->name, BENCH_AT_MOST, 1);
	}
}

/* As many as the limit of descriptors allows. */
static void limit_idle(const struct bench *b)
{
	unsigned int fds = bench_need_fds(2 * IDLE_MAX + FDS_OTHER);

	tasks[2].n = b->quick ? 50 : (int)(fds - FDS_OTHER) / 2;
	if (tasks[2].n < IDLE_MAX && !b->quick)
		bench_note("%d idle connections only: a proxy has two "
			   "descriptors for each, and ulimit -Hn is %u",
			   tasks[2].n, fds);
}

static bool has(const char *program, const char *task)
{
	if (bench_has_program(program))
		return true;
	bench_note("%s is left out: there is no %s", task, program);
	return false;
}

int main(int argc, char **argv)
{
	static const uint64_t conns[] = { CONNS };
	static struct bench b;
	double limit;

	bench_init_with(&b, "proxy", BENCH_DEPTHS, argc, argv);
	bench_default(&b.depths, conns, ARRAY_SIZE(conns));
	b.reference = "haproxy";
	find_script();
	if (access(getenv("WEIR_PROXY_PEERS"), R_OK))
		bench_die(getenv("WEIR_PROXY_PEERS"), errno);
	bench_need_example("weir-proxy");
	if (!bench_has_program("python3")) {
		bench_note("no python3: left out");
		return bench_done(&b);
	}
	limit_idle(&b);
	limit = b.limit;
	b.limit = limit * LIMITS;
	if (!b.quick && has("wrk", "requests") && has("nginx", "requests"))
		measure_requests(&b);
	if (!b.quick && has("iperf3", "bulk"))
		measure(&b, &tasks[1], 0);
	b.limit = limit;
	measure(&b, &tasks[2], 0);
	goals(&b);
	return bench_done(&b);
}
