/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Calls and posts between the cores of a group on two CPUs, beside what loops
 * have for it: a pair of libuv's uv_async, and messages between rings.
 *
 *	call     there and back, with one or more in flight; ns for each
 *	posts    one way, as fast as the other takes them; the CPU time of both
 *	gap      a call, after so long a time of doing nothing else: its 99th
 *	         percentile, in ns
 *	asleep   a call to a core that sleeps, from one that does, in us; without
 *	         spinning, so that they do sleep
 *	one CPU  there and back between two loops that share it and do not know
 *	         of each other: who goes on to spin there is 20 times as slow
 *
 * "bare ring" is what memory alone sets as a limit; see bare-ring.c.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weir/call.h>
#include <weir/group.h>

#include "bench/bare-ring.h"
#include "bench/bench.h"
#include "bench/post-peers.h"

#define WINDOW_MAX 256
#define GAP_CALLS 5000

static const char *const weir = "weir group";
static const char *const bare = "bare ring";

struct run {
	struct weir_group *group;
	struct weir_reactor *r[2];
	struct call {
		struct weir_op op;
		struct run *run;
		uint64_t made_ns;
	} call[WINDOW_MAX];
	unsigned int window;
	uint64_t sent, ended, wanted;
	uint64_t begun_ns, ended_ns;
	uint64_t cpu_ns;
	uint64_t gap_ns, gap_ends_ns, called_ns;
	struct weir_op capacity;
	double *took;
	struct bench_hist *latency;	/* NULL: the clock is not read. */

	/* Core 1's own: else the two would write to the same line. */
	_Alignas(128) uint64_t served, to_serve;
};

static void begin_timing(struct run *run)
{
	run->cpu_ns = bench_process_ns();
	run->begun_ns = bench_wall_ns();
}

static void end_run(struct run *run)
{
	run->ended_ns = bench_wall_ns();
	run->cpu_ns = bench_process_ns() - run->cpu_ns;
	weir_group_stop(run->group);
}

/* A group of two, of which core 0 is this thread; @begin runs there first. */
static void run_group(struct run *run, uint32_t spin_ns, uint32_t backend,
		      int (*begin)(struct weir_group *group, uint32_t core,
				   void *arg))
{
	struct weir_reactor_opts ropts = {
		.size = sizeof(ropts), .spin_ns = spin_ns, .backend = backend,
	};
	struct weir_group_opts opts = {
		.size = sizeof(opts), .n_cores = 2, .reactor = &ropts,
		.flags = WEIR_GROUP_ADOPT,
	};

	bench_must(weir_group_create(&run->group, &opts), "group");
	bench_must(weir_group_set_core_fns(run->group, begin, NULL, run),
		   "set_core_fns");
	bench_must(weir_group_start(run->group), "start");
	bench_must(weir_group_run(run->group), "run");
	bench_must(weir_group_destroy(run->group), "destroy");
}

static void find_reactors(struct run *run)
{
	run->r[0] = weir_group_reactor(run->group, 0);
	run->r[1] = weir_group_reactor(run->group, 1);
}

/* Calls. */

static int64_t serve(void *arg)
{
	struct run *run = arg;

	return (int64_t)run->served++;
}

static void make_call(struct call *c)
{
	struct run *run = c->run;

	run->sent++;
	if (run->latency)
		c->made_ns = bench_wall_ns();
	bench_must(weir_call(run->r[0], &c->op, run->r[1], serve, run),
		   "weir_call");
}

static void on_answer(struct weir_op *op, int64_t res)
{
	struct call *c = weir_container_of(op, struct call, op);
	struct run *run = c->run;

	bench_must((int)(res < 0 ? res : 0), "answer");
	if (run->latency)
		bench_hist_add(run->latency, bench_wall_ns() - c->made_ns);
	if (++run->ended == run->wanted)
		end_run(run);
	else if (run->sent < run->wanted)
		make_call(c);
}

static void first_calls(void *arg)
{
	struct run *run = arg;

	begin_timing(run);
	for (unsigned int i = 0; i < run->window; i++)
		make_call(&run->call[i]);
}

static int begin_calls(struct weir_group *group, uint32_t core, void *arg)
{
	struct run *run = arg;

	(void)group;
	find_reactors(run);
	if (core)
		return 0;
	for (unsigned int i = 0; i < run->window; i++) {
		weir_op_init(&run->call[i].op, on_answer);
		run->call[i].run = run;
	}
	return weir_post(run->r[0], first_calls, run);
}

static double per_call(const struct run *run)
{
	return (double)(run->ended_ns - run->begun_ns) / (double)run->wanted;
}

static double calls(unsigned int window, uint64_t n, uint32_t spin_ns,
		    struct bench_hist *latency)
{
	static struct run run;

	run = (struct run){ .window = window, .wanted = n, .latency = latency };
	run_group(&run, spin_ns, 0, begin_calls);
	return per_call(&run);
}

/* Posts. */

static void take(void *arg)
{
	struct run *run = arg;

	if (++run->served == run->to_serve)
		end_run(run);
}

static void send_posts(struct run *run);

static void on_capacity(struct weir_op *op, int64_t res)
{
	struct run *run = weir_container_of(op, struct run, capacity);

	bench_must((int)res, "weir_capacity_wait");
	send_posts(run);
}

static void send_posts(struct run *run)
{
	int err = 0;

	while (run->sent < run->wanted && !err) {
		err = weir_post(run->r[1], take, run);
		run->sent += !err;
	}
	if (err == -EAGAIN)
		err = weir_capacity_wait(run->r[0], &run->capacity, run->r[1]);
	bench_must(err, "weir_post");
}

static void first_posts(void *arg)
{
	begin_timing(arg);
	send_posts(arg);
}

static int begin_posts(struct weir_group *group, uint32_t core, void *arg)
{
	struct run *run = arg;

	(void)group;
	find_reactors(run);
	weir_op_init(&run->capacity, on_capacity);
	return core ? 0 : weir_post(run->r[0], first_posts, run);
}

static double posts(uint64_t n, double *cpu)
{
	static struct run run;

	run = (struct run){ .wanted = n, .to_serve = n };
	run_group(&run, 0, 0, begin_posts);
	*cpu = (double)run.cpu_ns / (double)n;
	return per_call(&run);
}

/* Calls with gaps between them. */

static void wait_out_gap(struct weir_op *op, int64_t res)
{
	struct run *run = weir_container_of(op, struct run, capacity);

	(void)res;
	if (bench_wall_ns() < run->gap_ends_ns) {
		bench_must(weir_defer(run->r[0], op), "weir_defer");
		return;
	}
	run->called_ns = bench_wall_ns();
	make_call(&run->call[0]);
}

static void on_gap_answer(struct weir_op *op, int64_t res)
{
	struct run *run = weir_container_of(op, struct call, op)->run;
	uint64_t now = bench_wall_ns();

	(void)res;
	run->took[run->ended++] = (double)(now - run->called_ns);
	run->gap_ends_ns = now + run->gap_ns;
	if (run->ended == run->wanted)
		end_run(run);
	else
		bench_must(weir_defer(run->r[0], &run->capacity), "weir_defer");
}

static void first_gap(void *arg)
{
	struct run *run = arg;

	begin_timing(run);
	run->called_ns = run->begun_ns;
	make_call(&run->call[0]);
}

static int begin_gaps(struct weir_group *group, uint32_t core, void *arg)
{
	struct run *run = arg;

	(void)group;
	find_reactors(run);
	if (core)
		return 0;
	run->call[0].run = run;
	weir_op_init(&run->call[0].op, on_gap_answer);
	weir_op_init(&run->capacity, wait_out_gap);
	return weir_post(run->r[0], first_gap, run);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double took[GAP_CALLS];

/* Without the first tenth, in which the loop learns what to expect. */
static double took_p99(struct bench_hist *latency)
{
	size_t skip = GAP_CALLS / 10, n = GAP_CALLS - skip;

	for (size_t i = skip; i < GAP_CALLS; i++)
		bench_hist_add(latency, (uint64_t)took[i]);
	qsort(took + skip, n, sizeof(*took), by_value);
	return took[skip + n * 99 / 100];
}

static double gap_p99(uint64_t gap_ns, struct bench_hist *latency)
{
	static struct run run;

	run = (struct run){ .wanted = GAP_CALLS, .gap_ns = gap_ns,
			    .took = took };
	run_group(&run, 0, 0, begin_gaps);
	return took_p99(latency);
}

static double bare_gap_p99(uint64_t gap_ns, struct bench_hist *latency)
{
	bare_ring_gaps(GAP_CALLS, gap_ns, took);
	return took_p99(latency);
}

static const uint64_t windows[] = { 1, 8, 64, 256 };
static const double least[] = { 100, 100, 80, 30 };	/* Times uv_async. */
static const unsigned int gaps_us[] = { 0, 5, 20, 40 };

static const char *name_call(uint64_t window)
{
	static char what[48];

	snprintf(what, sizeof(what), "call, %u in flight",
		 (unsigned int)window);
	return what;
}

static const char *name_gap(unsigned int us)
{
	static char what[48];

	snprintf(what, sizeof(what), "p99 after a gap of %u us", us);
	return what;
}

/* Its p99 is the figure. */
static struct bench_hist *gap_latency(struct bench *b, unsigned int us,
				      const char *variant)
{
	return bench_latency(b, name_gap(us) + strlen("p99 "), variant);
}

/* Some hundred milliseconds of the slower, whatever the window. */
static uint64_t calls_of(unsigned int window)
{
	return 4000 * (uint64_t)(window < 64 ? window : 64);
}

static void add_calls(struct bench *b, unsigned int window)
{
	const struct post_peer *uv = post_peer("libuv");
	uint64_t n = b->quick ? 500 : calls_of(window);

	if (bench_wants(b, weir))
		bench_add(b, name_call(window), weir, "ns/call",
			  calls(window, 20 * n, 0, NULL));
	if (bench_wants(b, bare))
		bench_add(b, name_call(window), bare, "ns/call",
			  bare_ring(20 * n, window));
	if (uv && bench_wants(b, uv->name))
		bench_add(b, name_call(window), uv->name, "ns/call",
			  post_round_trip(uv, (int)window, n));
	/* Apart, because the clock is a good part of so short a time. */
	if (bench_wants(b, weir))
		calls(window, 4 * n, 0, bench_latency(b, name_call(window),
						      weir));
}

static void add_posts(struct bench *b)
{
	static const struct {
		const char *name;
		uint64_t share;		/* Of a flood: the slower, the less. */
	} peers[] = { { "libuv", 1 }, { "MSG_RING", 5 } };
	uint64_t n = b->quick ? 5000 : FLOOD;
	const struct post_peer *p;
	double cpu;

	if (bench_wants(b, weir)) {
		bench_add(b, "posts", weir, "ns/msg", posts(10 * n, &cpu));
		bench_add(b, "posts, CPU of both", weir, "ns/msg", cpu);
	}
	if (bench_wants(b, bare))
		bench_add(b, "posts", bare, "ns/msg", bare_ring(10 * n, 0));
	for (size_t i = 0; i < ARRAY_SIZE(peers); i++) {
		p = post_peer(peers[i].name);
		if (p && bench_wants(b, p->name))
			bench_add(b, "posts", p->name, "ns/msg",
				  post_flood(p, n / peers[i].share));
	}
}

static void add_gaps(struct bench *b)
{
	for (size_t i = 0; i < ARRAY_SIZE(gaps_us); i++) {
		if (bench_wants(b, weir))
			bench_add(b, name_gap(gaps_us[i]), weir, "ns",
				  gap_p99(gaps_us[i] * 1000,
					  gap_latency(b, gaps_us[i], weir)));
		if (bench_wants(b, bare))
			bench_add(b, name_gap(gaps_us[i]), bare, "ns",
				  bare_gap_p99(gaps_us[i] * 1000,
					gap_latency(b, gaps_us[i], bare)));
	}
}

static void add_asleep(struct bench *b)
{
	const struct post_peer *ep = post_peer("epoll+eventfd");
	uint64_t n = b->quick ? 50 : 4000;

	if (bench_wants(b, weir))
		bench_add(b, "asleep", weir, "ns/call",
			  calls(1, n, WEIR_SPIN_NONE,
				bench_latency(b, "asleep", weir)));
	if (bench_wants(b, ep->name))
		bench_add(b, "asleep", ep->name, "ns/call",
			  post_round_trip(ep, 1, n));
}

static void add_one_cpu(struct bench *b)
{
	static const char *const names[] = { "weir uring", "epoll+eventfd" };
	uint64_t n = b->quick ? 50 : 20000;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (bench_wants(b, names[i]))
			bench_add(b, "one CPU", names[i], "ns/call",
				  post_round_trip_on(post_peer(names[i]), 0, 1,
						     n));
}

static void add_goals(struct bench *b)
{
	char goal[80];

	for (size_t i = 0; i < ARRAY_SIZE(windows); i++) {
		snprintf(goal, sizeof(goal), "uv_async, at least %g times a "
			 "call, %u in flight", least[i],
			 (unsigned int)windows[i]);
		bench_goal(b, goal, name_call(windows[i]), "libuv", weir,
			   BENCH_AT_LEAST, least[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(windows); i++)
		if (windows[i] >= 64)
			bench_goal(b, "64 and 256 calls: at least 0.6 of the "
				   "bare ring's rate", name_call(windows[i]),
				   weir, "bare ring", BENCH_AT_MOST, 1 / 0.6);
	bench_goal(b, "uv_async, at least 5 times a post", "posts", "libuv",
		   weir, BENCH_AT_LEAST, 5);
	bench_goal(b, "MSG_RING, at least 40 times a post", "posts",
		   "MSG_RING", weir, BENCH_AT_LEAST, 40);
	bench_goal(b, "a post, at most 15 ns of CPU", "posts, CPU of both",
		   weir, NULL, BENCH_AT_MOST, 15);
	for (size_t i = 0; i < ARRAY_SIZE(gaps_us); i++)
		bench_goal(b, "p99 after a gap: at most 1.5 times the bare "
			   "ring's", name_gap(gaps_us[i]), weir, "bare ring",
			   BENCH_AT_MOST, 1.5);
	bench_goal(b, "asleep, spinning off: at most 1.05 times eventfd and "
		   "epoll", "asleep", weir, "epoll+eventfd", BENCH_AT_MOST,
		   1.05);
	bench_goal(b, "one CPU, spinning on: at most 1.15 times eventfd and "
		   "epoll", "one CPU", "weir uring", "epoll+eventfd",
		   BENCH_AT_MOST, 1.15);
}

int main(int argc, char **argv)
{
	static struct bench b;

	bench_init_with(&b, "call", BENCH_DEPTHS, argc, argv);
	bench_default(&b.depths, windows, ARRAY_SIZE(windows));
	for (int i = 0; i < b.depths.n; i++)
		if (b.depths.value[i] > WINDOW_MAX)
			bench_die("--depth", E2BIG);
	if (bench_cpus() < 2)
		bench_note("one CPU only: both cores share it");
	for (bench_begin(&b); bench_next(&b); ) {
		for (int i = 0; i < b.depths.n; i++)
			add_calls(&b, (unsigned int)b.depths.value[i]);
		add_posts(&b);
		add_gaps(&b);
		add_asleep(&b);
		add_one_cpu(&b);
	}
	add_goals(&b);
	return bench_done(&b);
}
